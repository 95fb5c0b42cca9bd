#ifndef HEARTH_ENGINE_STRATEGY_SAMPLED_BATCH_H_
#define HEARTH_ENGINE_STRATEGY_SAMPLED_BATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cache/row_memory.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/labels.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

/// The item that flows through the pipelines of strategies (SampledBatch), the
/// pool of its buffers (BufferPool), and its delivery to the consumer
/// (Deliver).

namespace hearth::strategy {

/// Buffers of batches, reused. A batch's input rows are hundreds of megabytes:
/// fresh pages for each batch would cost more than the copy. The pool holds as
/// many buffers as were ever lent at once. Thread-safe.
class BufferPool {
 public:
  /// A lent buffer, of any size; returns itself when destroyed. Move-only. The
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

  /// Frees the buffers that are not lent.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    free_.clear();
  }

  /// Lends a returned buffer, or an empty new one.
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

/// A shard of a batch (Pass::shards; with one shard, the batch) on its way
/// through the stages of a strategy, which derives its own item from it if
/// stages hand on more. Owned by one thread at a time.
class SampledBatch : public pipeline::Item {
 public:
  /// `number` counts shards from the start of the epoch, skipped ones included.
  explicit SampledBatch(int64_t number) : number_(number) {}

  int64_t number() const { return number_; }

  /// The seeds that were asked for (Pass::requests); else none.
  absl::Span<const store::NodeId> seeds() const { return seeds_; }
  void set_seeds(std::vector<store::NodeId> seeds) {
    seeds_ = std::move(seeds);
  }

  /// The sample. The sampling stage sets it.
  sample::MiniBatch& sample() { return sample_; }
  const sample::MiniBatch& sample() const { return sample_; }
  /// Labels of the seeds. The sampling stage sets them.
  const store::Labels& labels() const { return labels_; }
  /// Takes the labels of `seeds` from those of all nodes, which outlive the
  /// batch; and those of the seeds of the whole batch, where machines share it.
  void TakeLabels(const store::Labels& all,
                  absl::Span<const store::NodeId> seeds,
                  absl::Span<const store::NodeId> seeds_of_batch = {}) {
    labels_ = all.Gather(seeds);
    batch_labels_ = all.Gather(seeds_of_batch);
    all_labels_ = &all;
  }

  int64_t num_rows() const {
    return static_cast<int64_t>(sample_.input_nodes.size());
  }

  /// Memory for the input rows, [num_rows(), feature_dim] float32, 64-byte
  /// aligned, held until the batch is destroyed. Call it when rows are
  /// assembled and not before, so that batches which wait to be read hold
  /// nothing big. Of the pass's own pool (UseInputPool), else of `pool`, which
  /// must outlive the batch. RESOURCE_EXHAUSTED if the system has no memory;
  /// errors of InputPool::Take.
  absl::StatusOr<float*> TakeInputs(int64_t feature_dim, BufferPool& pool);

  /// In place of TakeInputs, for input rows that stay on a GPU. REQUIRES:
  /// Pass::rows_on_gpu; `rows` outlive the batch.
  void LeaveInputs(int64_t feature_dim, const train::DeviceRows& rows) {
    feature_dim_ = feature_dim;
    device_rows_ = &rows;
  }

  /// In place of TakeInputs, for input rows that stay where they are until the
  /// batch is destroyed. REQUIRES: Pass::rows_in_place.
  void LeaveInputs(const train::RowsInPlace& rows) {
    feature_dim_ = rows.format.dim;
    rows_ = rows;
  }

  /// TakeInputs takes memory of `pool`, which outlives the batch.
  void UseInputPool(train::InputPool& pool) { input_pool_ = &pool; }

  /// The trainer's view. REQUIRES: the sample is set, and the input rows are
  /// filled in or left.
  train::BatchView view() const;

 private:
  const int64_t number_;
  std::vector<store::NodeId> seeds_;
  sample::MiniBatch sample_;
  store::Labels labels_;
  store::Labels batch_labels_;
  const store::Labels* all_labels_ = nullptr;
  int64_t feature_dim_ = 0;
  BufferPool::Lease inputs_;
  // Set in place of `inputs_` with a pool of the pass.
  train::InputPool* input_pool_ = nullptr;
  std::shared_ptr<train::InputMemory> input_memory_;
  // Input rows on a GPU; null where `inputs_` has the rows.
  const train::DeviceRows* device_rows_ = nullptr;
  std::optional<train::RowsInPlace> rows_;

  const float* InputData() const;
};

/// Adds reads to a report: bytes, requests and waiting.
void AddReads(const io::ReadTally& tally, PassReport& report);

/// What Deliver delivers, and how it counts it.
struct Delivery {
  const Clock& clock;
  /// Shards to deliver.
  ShardRange range;
  /// Shards of each batch (Pass::shards).
  int64_t shards = 1;
  /// Pass::requests: their end is that of the range.
  sample::SeedRequests* requests = nullptr;
  /// Pass::input_pools; empty, or one for each shard.
  absl::Span<train::InputPool* const> input_pools = {};
  /// Bytes of a row as stored.
  int64_t row_bytes = 0;
  /// Makes the item of a shard; absent: a plain SampledBatch.
  std::function<std::unique_ptr<SampledBatch>(int64_t number)> make = nullptr;
  /// Adds a strategy's own figures of a shard to the report, just before the
  /// consumer takes it. May be empty.
  std::function<void(const SampledBatch& shard, PassReport& report)> count =
      nullptr;
};

/// Runs the SampledBatch items of `delivery.range` through `pipeline` and calls
/// `consumer` with the shards of one batch at a time, as Strategy::Run does.
/// Sets seconds, stages, batches, seeds, history figures, rows and bytes needed
/// in `report`, and leaves the rest of it alone. REQUIRES: a range of whole
/// batches.
absl::Status Deliver(pipeline::Pipeline& pipeline, const Delivery& delivery,
                     const Strategy::Consumer& consumer, std::stop_token stop,
                     PassReport& report);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SAMPLED_BATCH_H_
