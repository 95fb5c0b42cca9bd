#ifndef HEARTH_ENGINE_MODEL_RUNTIME_BUFFER_POOL_H_
#define HEARTH_ENGINE_MODEL_RUNTIME_BUFFER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace hearth::model {

/// The memory of large buffers, kept between steps. A step allocates and frees
/// hundreds of megabytes; given back to the kernel, they would have to be
/// cleared and mapped again each time, a fifth of a step's time. All buffers
/// lie in one region of addresses, each in the smallest gap that holds it, so
/// that the memory of one serves others of any size. Memory that no buffer
/// lies in is given back where the region would have more than an eighth more
/// than was ever in use at once, or has not been used for some steps.
/// Thread-safe.
class BufferPool {
 public:
  /// Smaller buffers are left to malloc, which keeps them well enough.
  static constexpr size_t kSmallestPooled = size_t{256} << 10;
  /// Number of trims after which unused memory goes back to the kernel. Batches
  /// differ in size, so that not every step uses all memory, but most do.
  static constexpr uint64_t kTrimsKept = 4;

  /// Reserves addresses, but no memory.
  BufferPool();
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// A buffer of at least `bytes` bytes, 64-byte aligned, not cleared. Throws
  /// std::bad_alloc, as LibTorch expects of an allocator.
  void* Allocate(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Frees a buffer of Allocate; does nothing for null.
  void Free(void* buffer) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Marks the end of a step: gives up memory unused for kTrimsKept steps.
  void Trim() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives up all memory that no buffer lies in.
  void ReleaseIdle() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives up all unused memory, and forgets how much was in use.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Upper bound of the region's memory: its huge pages that had buffers and
  /// were not given up since.
  size_t resident_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A huge page of the region.
  struct Page {
    // Number of buffers that lie in the page, wholly or in part.
    int64_t buffers = 0;
    bool is_resident = false;
    // Value of trims_ when the page's last buffer was freed.
    uint64_t idle_since = 0;
  };

  // A buffer within the region; null if there is no memory.
  void* Place(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes the region writable up to `end`; false if there is no memory.
  bool Extend(size_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LimitResident() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseIdleSince(uint64_t before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(size_t page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Begins at a huge page and consists of whole ones. Positions in it are
  // offsets in bytes from its start.
  std::byte* region_ = nullptr;
  size_t region_bytes_ = 0;

  mutable absl::Mutex mutex_;
  // Bytes of each buffer, and of each gap, by their offset. No two gaps touch.
  absl::flat_hash_map<size_t, size_t> buffers_ ABSL_GUARDED_BY(mutex_);
  std::map<size_t, size_t> gaps_ ABSL_GUARDED_BY(mutex_);
  // Writable pages, from the region's start.
  std::vector<Page> pages_ ABSL_GUARDED_BY(mutex_);
  size_t resident_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Bytes of the buffers in use, and the maximum of that sum.
  size_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t most_used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t trims_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RUNTIME_BUFFER_POOL_H_
