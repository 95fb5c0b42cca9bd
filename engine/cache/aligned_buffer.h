#ifndef HEARTH_ENGINE_CACHE_ALIGNED_BUFFER_H_
#define HEARTH_ENGINE_CACHE_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/io/aligned_memory.h"

namespace hearth::cache {

/// Memory that batch after batch is assembled in: 64-byte aligned, on huge
/// pages where it is large. Grows when it must and keeps what it has, so that a
/// stream of batches soon allocates no more. Thread-compatible; movable.
class AlignedBuffer {
 public:
  /// The most memory that a buffer takes which is never resized to more than
  /// `largest` bytes: nobody writes to what it holds beyond them.
  static uint64_t MemoryBytes(uint64_t largest);

  /// Makes at least `size` bytes available at data(). What was in the buffer
  /// is lost when it has to grow. RESOURCE_EXHAUSTED, naming the size, if the
  /// system refuses; the buffer is then empty.
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

}  // namespace hearth::cache

#endif  // HEARTH_ENGINE_CACHE_ALIGNED_BUFFER_H_
