#include "engine/cache/aligned_buffer.h"

#include <algorithm>
#include <utility>

#include "engine/base/round_up.h"
#include "engine/base/status_macros.h"

namespace hearth::cache {
namespace {

constexpr uint64_t kPageBytes = 4096;

// Batches differ a little in size. Room that is never written to takes no
// memory, and spares the next batches a fresh start. (The larger of both,
// should the sum not fit in 64 bits.)
uint64_t WithRoom(uint64_t size) { return std::max(size, size + size / 8); }

}  // namespace

uint64_t AlignedBuffer::MemoryBytes(uint64_t largest) {
  constexpr uint64_t kHuge = io::AlignedMemory::kHugePageBytes;
  return RoundUp(largest, WithRoom(largest) < kHuge ? kPageBytes : kHuge);
}

absl::Status AlignedBuffer::Resize(uint64_t size) {
  if (size > capacity()) {
    // The old memory goes first, so that both are never held at once.
    memory_ = io::AlignedMemory();
    size_ = 0;
    HEARTH_ASSIGN_OR_RETURN(memory_,
                            io::AlignedMemory::Allocate(WithRoom(size)));
  }
  size_ = size;
  return absl::OkStatus();
}

}  // namespace hearth::cache
