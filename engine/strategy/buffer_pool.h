#ifndef HEARTH_ENGINE_STRATEGY_BUFFER_POOL_H_
#define HEARTH_ENGINE_STRATEGY_BUFFER_POOL_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/cache/aligned_buffer.h"

namespace hearth::strategy {

/// Buffers that batches have left behind. A batch's input rows are hundreds of
/// megabytes: fresh pages for each would cost more than the copy. It holds as
/// many buffers as were ever out at once. Thread-safe.
class BufferPool {
 public:
  /// A buffer of any size; gives itself back when destroyed. Move-only. The
  /// pool must outlive it.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(buffer_, other.buffer_);
      return *this;
    }
    ~Lease() {
      if (pool_ != nullptr) pool_->Return(std::move(buffer_));
    }

    cache::AlignedBuffer& buffer() { return buffer_; }
    const cache::AlignedBuffer& buffer() const { return buffer_; }

   private:
    friend class BufferPool;
    Lease(BufferPool* pool, cache::AlignedBuffer buffer)
        : pool_(pool), buffer_(std::move(buffer)) {}

    BufferPool* pool_ = nullptr;
    cache::AlignedBuffer buffer_;
  };

  /// Gives up the buffers that came back.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    free_.clear();
  }

  /// One that came back, or an empty one.
  Lease Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (free_.empty()) return Lease(this, {});
    Lease lease(this, std::move(free_.back()));
    free_.pop_back();
    return lease;
  }

 private:
  void Return(cache::AlignedBuffer buffer) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    free_.push_back(std::move(buffer));
  }

  absl::Mutex mutex_;
  std::vector<cache::AlignedBuffer> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_BUFFER_POOL_H_
