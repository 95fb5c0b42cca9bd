#ifndef HEARTH_ENGINE_MODEL_BUFFER_POOL_H_
#define HEARTH_ENGINE_MODEL_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace hearth::model {

/// Keeps large buffers between steps. A step frees and allocates hundreds of
/// megabytes; given back to the kernel, they would have to be cleared and
/// mapped again each time, a fifth of a step's time. Beside those in use it
/// keeps so many that all together are at most an eighth more than were ever
/// in use at once. Thread-safe.
class BufferPool {
 public:
  /// Buffers below this are left to malloc, which keeps them well enough.
  static constexpr size_t kSmallestPooled = size_t{256} << 10;
  /// Trims after which an unused buffer goes back to the kernel. Batches
  /// differ in size, so that a buffer fits not every step but most.
  static constexpr uint64_t kTrimsKept = 4;

  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// At least `bytes`, 64-byte aligned, not cleared. Throws std::bad_alloc, as
  /// LibTorch expects of an allocator.
  void* Allocate(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes back what Allocate gave, or null.
  void Free(void* buffer) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Marks the end of a step: gives up buffers unused for kTrimsKept steps.
  void Trim() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives up all unused buffers, and forgets how many were in use.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Bytes of buffers kept but unused.
  size_t idle_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Idle {
    void* block;
    uint64_t since;
  };
  using Idles = std::multimap<size_t, Idle>;

  // An idle block for a buffer of that size, in use from now on; null if there
  // is none, and room for a new one.
  void* TakeIdleOrMakeRoom(size_t size) ABSL_LOCKS_EXCLUDED(mutex_);
  void* TakeIdle(size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Idles::iterator Release(Idles::iterator idle)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseBefore(uint64_t since) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  // By size.
  Idles idle_ ABSL_GUARDED_BY(mutex_);
  size_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Bytes of the buffers in use, and the most that there were at once.
  size_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t most_used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t trims_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_BUFFER_POOL_H_
