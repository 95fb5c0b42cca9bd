#ifndef HEARTH_ENGINE_BASE_PROCESS_H_
#define HEARTH_ENGINE_BASE_PROCESS_H_

#include <cstdint>

/// What the kernel says of this process and machine, in bytes; 0 where there
/// is no /proc.

namespace hearth {

/// What this process has made the kernel read from storage so far (read_bytes
/// of /proc/self/io).
uint64_t ProcessReadBytes();

/// What new allocations may take without swapping (MemAvailable).
uint64_t AvailableMemoryBytes();

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_PROCESS_H_
