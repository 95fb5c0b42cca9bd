#ifndef HEARTH_ENGINE_BASE_PROCESS_H_
#define HEARTH_ENGINE_BASE_PROCESS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

/// Memory and processors of this process, its cgroup and the machine, as the
/// kernel tells (bytes are 0 where /proc is not mounted); giving free memory
/// back; paths of libraries that are loaded at run time. Thread-safe.

namespace hearth {

/// Bytes that the kernel has read from storage for this process (read_bytes of
/// /proc/self/io).
uint64_t ProcessReadBytes();

/// Total memory in bytes: that of the machine, or the limit of this process's
/// memory cgroup (v1 or v2) if lower.
uint64_t MemoryCapacityBytes();

/// Memory limit in bytes of the cgroup that `text`, the contents of
/// /proc/self/cgroup, names in hierarchies mounted at `mount`; UINT64_MAX
/// without a limit.
uint64_t CgroupMemoryLimit(absl::string_view text, const std::string& mount);

/// Number of processors that this process may keep busy: processors it may run
/// on, or the quota of its CPU cgroup (v1 or v2), rounded up, if lower; at
/// least 1.
int UsableProcessors();

/// Lets other threads run first: adds `steps` to the nice value of the calling
/// thread and of those that it starts from now on, which then get the
/// processors that others leave, and a small share of busy ones. Does nothing
/// where the kernel refuses.
void RaiseNice(int steps);

/// CPU quota, in processors, of the cgroup that `text`, the contents of
/// /proc/self/cgroup, names in hierarchies mounted at `mount`; infinity without
/// a quota.
double CgroupProcessorLimit(absl::string_view text, const std::string& mount);

/// Bytes that new allocations may take without swapping (MemAvailable).
uint64_t AvailableMemoryBytes();

/// Resident memory of a process, without pages of mapped files, which the
/// kernel may drop.
struct ProcessMemory {
  /// RssAnon: heap, stacks, private memory.
  uint64_t anonymous_bytes = 0;
  /// RssShmem: shared memory.
  uint64_t shared_bytes = 0;

  uint64_t total_bytes() const { return anonymous_bytes + shared_bytes; }
};

/// Memory of this process now; zeros where /proc is not mounted.
ProcessMemory ReadProcessMemory();

/// Parses `status`, the contents of a /proc/PID/status.
ProcessMemory ParseProcessStatus(absl::string_view status);

/// Makes all threads allocate from one heap: ReleaseFreePages gives back all
/// free pages of the first heap only. Call at the start of main, before another
/// thread allocates.
void ShareOneHeap();

/// Gives unused pages that the allocator keeps back to the system.
void ReleaseFreePages();

/// Path of a library to load: the value of the environment variable `variable`,
/// or else `name` in the folder of the running binary.
std::string LibraryPath(const char* variable, absl::string_view name);

/// Last error of the dynamic linker on this thread; it names the file.
std::string LinkerError();

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_PROCESS_H_
