#ifndef HEARTH_ENGINE_CACHE_SLOT_ARENA_H_
#define HEARTH_ENGINE_CACHE_SLOT_ARENA_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/io/aligned_memory.h"

namespace hearth::cache {

/// Slots of one size that hold feature rows as they are stored (the file's
/// element type; they are widened when a batch is assembled), one after the
/// other in one block: page-aligned, on huge pages where it is large and the
/// system gives them, and near the processor of the thread that made it. So
/// slots are numbered like the rows of a matrix, and a kernel gathers from them
/// by slot number.
///
/// Memory is taken as slots are first written to. Holds bytes, decides nothing.
/// Different slots may be used by different threads. Movable.
class SlotArena {
 public:
  /// RESOURCE_EXHAUSTED, with the numbers, if the system refuses.
  /// REQUIRES: num_slots >= 0, row_bytes > 0.
  static absl::StatusOr<SlotArena> Make(int64_t num_slots, int64_t row_bytes);

  int64_t num_slots() const { return num_slots_; }
  int64_t row_bytes() const { return row_bytes_; }

  /// The first byte of slot 0; null without slots.
  const std::byte* rows() const { return memory_.bytes().data(); }

  /// The first of the row_bytes() bytes of `slot`.
  std::byte* row(int64_t slot) {
    return memory_.bytes().data() + slot * row_bytes_;
  }
  const std::byte* row(int64_t slot) const {
    return memory_.bytes().data() + slot * row_bytes_;
  }

 private:
  SlotArena(io::AlignedMemory memory, int64_t num_slots, int64_t row_bytes);

  io::AlignedMemory memory_;
  int64_t num_slots_;
  int64_t row_bytes_;
};

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_SLOT_ARENA_H_
