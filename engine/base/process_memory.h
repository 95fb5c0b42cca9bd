#ifndef HEARTH_ENGINE_BASE_PROCESS_MEMORY_H_
#define HEARTH_ENGINE_BASE_PROCESS_MEMORY_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace hearth {

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

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_PROCESS_MEMORY_H_
