#ifndef HEARTH_ENGINE_CACHE_ROW_MEMORY_H_
#define HEARTH_ENGINE_CACHE_ROW_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/aligned_memory.h"

namespace hearth::cache {

/// Memory that batch after batch is assembled in: 64-byte aligned, on huge
/// pages where it is large. Grows when it must and never shrinks, so that a
/// stream of batches soon allocates no more. Thread-compatible; movable.
class AlignedBuffer {
 public:
  /// The most memory, in bytes, of a buffer that is never resized to more than
  /// `largest` bytes: memory beyond `largest` is never written to.
  static uint64_t MemoryBytes(uint64_t largest);

  /// Makes at least `size` bytes available at data(). The contents are lost if
  /// the buffer has to grow. RESOURCE_EXHAUSTED, naming the size, if the system
  /// refuses; the buffer is then empty.
  absl::Status Resize(uint64_t size);

  /// The first of size() bytes; null if there are none.
  std::byte* data() { return memory_.bytes().data(); }
  const std::byte* data() const { return memory_.bytes().data(); }

  /// The size last asked for.
  uint64_t size() const { return size_; }

  /// Bytes held, asked for or not.
  uint64_t capacity() const { return memory_.bytes().size(); }

 private:
  io::AlignedMemory memory_;
  uint64_t size_ = 0;
};

/// Slots of one size that hold feature rows as they are stored (in the file's
/// element type; rows are widened when a batch is assembled), one after the
/// other in one block: page-aligned, on huge pages where it is large and the
/// system gives them, on the NUMA node of the thread that made it. Slots are
/// numbered like the rows of a matrix, and a kernel gathers from them by slot
/// number.
///
/// The system gives memory as slots are first written to. Different slots may
/// be used by different threads. Movable.
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

#endif  // HEARTH_ENGINE_CACHE_ROW_MEMORY_H_
