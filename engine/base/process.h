#ifndef HEARTH_ENGINE_BASE_PROCESS_H_
#define HEARTH_ENGINE_BASE_PROCESS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

/// The kernel's figures of this process and machine: bytes, 0 where there is no
/// /proc, and processors.

namespace hearth {

/// Bytes that this process has made the kernel read from storage so far
/// (read_bytes of /proc/self/io).
uint64_t ProcessReadBytes();

/// Memory in all: the machine's, or the limit of a memory cgroup (v1 or v2)
/// that this process is in, where that is less.
uint64_t MemoryCapacityBytes();

/// The memory limit of the cgroup that the text of /proc/self/cgroup tells, in
/// hierarchies mounted at `mount`; UINT64_MAX without one.
uint64_t CgroupMemoryLimit(absl::string_view text, const std::string& mount);

/// Processors that this process may keep busy: those of the machine that it may
/// run on, or the quota of a CPU cgroup (v1 or v2) that it is in, rounded up,
/// where that is less; at least 1.
int UsableProcessors();

/// The quota of the cgroup that the text of /proc/self/cgroup tells, in
/// processors, in hierarchies mounted at `mount`; infinity without one.
double CgroupProcessorLimit(absl::string_view text, const std::string& mount);

/// Memory that new allocations may take without swapping (MemAvailable).
uint64_t AvailableMemoryBytes();

/// Resident memory that a process owns; pages of mapped files are the kernel's.
struct ProcessMemory {
  /// RssAnon: heap, stacks, private memory.
  uint64_t anonymous_bytes = 0;
  /// RssShmem: shared memory.
  uint64_t shared_bytes = 0;

  uint64_t total_bytes() const { return anonymous_bytes + shared_bytes; }
};

/// The memory of this process now; zeros where /proc is not mounted.
ProcessMemory ReadProcessMemory();

/// The memory that the text of a /proc/PID/status tells.
ProcessMemory ParseProcessStatus(absl::string_view status);

/// Makes all threads allocate from one heap, the only one of whose free pages
/// ReleaseFreePages gives back all. Call at the start of main, before another
/// thread allocates.
void ShareOneHeap();

/// Gives pages that the allocator keeps, but nobody uses, back to the system.
void ReleaseFreePages();

/// Libraries that are loaded while the process runs.

/// The path that the environment variable `variable` names; without one, `name`
/// in the folder of the binary that runs.
std::string LibraryPath(const char* variable, absl::string_view name);

/// The dynamic linker's last error on this thread, which names the file.
std::string LinkerError();

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_PROCESS_H_
