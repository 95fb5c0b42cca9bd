#include "engine/cache/row_memory.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"

namespace hearth::cache {

namespace {

constexpr uint64_t kPageBytes = 4096;

// Batches differ a little in size: some bytes more, which take no memory until
// they are written to, save the next batches an allocation. (The maximum is for
// a sum that does not fit in 64 bits.)
uint64_t WithRoom(uint64_t size) { return std::max(size, size + size / 8); }

// Asks for pages of the calling thread's NUMA node. Advice only: where the
// system has no nodes, or forbids the call, its own choice stays.
void PreferThisNode(absl::Span<std::byte> memory) {
  unsigned node = 0;
  if (::syscall(SYS_getcpu, nullptr, &node, nullptr) != 0) return;
  unsigned long mask[16] = {};
  constexpr unsigned kBits = 8 * sizeof(mask[0]);
  if (node >= kBits * 16) return;
  mask[node / kBits] = 1ul << (node % kBits);
  ::syscall(SYS_mbind, memory.data(), memory.size(), MPOL_PREFERRED, mask,
            kBits * 16, 0);
}

}  // namespace

uint64_t AlignedBuffer::MemoryBytes(uint64_t largest) {
  constexpr uint64_t kHuge = io::AlignedMemory::kHugePageBytes;
  return RoundUp(largest, WithRoom(largest) < kHuge ? kPageBytes : kHuge);
}

absl::Status AlignedBuffer::Resize(uint64_t size) {
  if (size > capacity()) {
    // The old memory goes first, so that old and new are never held at once.
    memory_ = io::AlignedMemory();
    size_ = 0;
    HEARTH_ASSIGN_OR_RETURN(memory_,
                            io::AlignedMemory::Allocate(WithRoom(size)));
  }
  size_ = size;
  return absl::OkStatus();
}

absl::StatusOr<SlotArena> SlotArena::Make(int64_t num_slots,
                                          int64_t row_bytes) {
  assert(num_slots >= 0 && row_bytes > 0);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(num_slots),
                             static_cast<uint64_t>(row_bytes), &bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(num_slots, " slots of ", row_bytes,
                     " bytes are more than can be addressed"));
  }
  absl::StatusOr<io::AlignedMemory> memory = io::AlignedMemory::Allocate(bytes);
  if (!memory.ok()) {
    return Annotate(memory.status(),
                    absl::StrCat(num_slots, " row slots of ", row_bytes,
                                 " bytes, ", FormatByteSize(bytes)));
  }
  if (bytes > 0) PreferThisNode(memory->bytes());
  return SlotArena(*std::move(memory), num_slots, row_bytes);
}

SlotArena::SlotArena(io::AlignedMemory memory, int64_t num_slots,
                     int64_t row_bytes)
    : memory_(std::move(memory)),
      num_slots_(num_slots),
      row_bytes_(row_bytes) {}

}  // namespace hearth::cache
