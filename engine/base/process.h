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

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_PROCESS_H_
