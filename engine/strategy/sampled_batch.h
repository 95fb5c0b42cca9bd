#ifndef HEARTH_ENGINE_STRATEGY_SAMPLED_BATCH_H_
#define HEARTH_ENGINE_STRATEGY_SAMPLED_BATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/cache/row_memory.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/labels.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

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

/// A shard of a batch (Pass::shards; the batch itself where there is one) on
/// its way through the stages of a strategy, which may derive from it what else
/// they carry along. Owned by one thread at a time.
class SampledBatch : public pipeline::Item {
 public:
  /// `number` counts shards from the start of the epoch, skipped ones included.
  explicit SampledBatch(int64_t number) : number_(number) {}

  int64_t number() const { return number_; }

  /// Set by the sampling stage.
  sample::MiniBatch& sample() { return sample_; }
  const sample::MiniBatch& sample() const { return sample_; }
  /// Those of the seeds; set by the sampling stage.
  store::Labels& labels() { return labels_; }
  const store::Labels& labels() const { return labels_; }

  int64_t num_rows() const {
    return static_cast<int64_t>(sample_.input_nodes.size());
  }

  /// Room for the input rows, [num_rows(), feature_dim] float32, 64-byte
  /// aligned, kept until the batch is destroyed. Called when they are brought
  /// together and not before, so that batches which wait to be read hold
  /// nothing big. RESOURCE_EXHAUSTED if the system has no memory. `pool` must
  /// outlive the batch.
  absl::StatusOr<float*> TakeInputs(int64_t feature_dim, BufferPool& pool);

  /// In place of TakeInputs: the input rows are on a GPU. REQUIRES:
  /// Pass::rows_on_gpu; `rows` stay until the batch is destroyed.
  void LeaveInputs(int64_t feature_dim, const train::DeviceRows& rows) {
    feature_dim_ = feature_dim;
    device_rows_ = &rows;
  }

  /// The view of the trainer. REQUIRES: sampled, and input rows filled in.
  train::BatchView view() const;

 private:
  const int64_t number_;
  sample::MiniBatch sample_;
  store::Labels labels_;
  int64_t feature_dim_ = 0;
  BufferPool::Lease inputs_;
  // Null where `inputs_` has them.
  const train::DeviceRows* device_rows_ = nullptr;
};

/// The shards of batches that a pipeline delivers, and how they count.
struct Delivery {
  const Clock& clock;
  /// Those to deliver.
  ShardRange range;
  /// Shards of a batch: Pass::shards.
  int64_t shards = 1;
  /// Bytes of a stored row.
  int64_t row_bytes = 0;
  /// Makes the item for a shard; a plain SampledBatch where absent.
  std::function<std::unique_ptr<SampledBatch>(int64_t number)> make = nullptr;
  /// Adds a strategy's own figures of a shard that the consumer is to take.
  std::function<void(const SampledBatch& shard, PassReport& report)> count =
      nullptr;
};

/// Runs the SampledBatch items of `delivery.range` through `pipeline` and hands
/// them to `consumer`, as many at a time as a batch has shards, as
/// Strategy::Run does. Times, stages, batches, rows and bytes needed are set in
/// `report`; the rest of it is left alone. REQUIRES: a range of whole batches.
absl::Status Deliver(pipeline::Pipeline& pipeline, const Delivery& delivery,
                     const Strategy::Consumer& consumer, std::stop_token stop,
                     PassReport& report);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SAMPLED_BATCH_H_
