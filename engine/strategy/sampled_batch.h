#ifndef HEARTH_ENGINE_STRATEGY_SAMPLED_BATCH_H_
#define HEARTH_ENGINE_STRATEGY_SAMPLED_BATCH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/labels.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/train/device_rows.h"
#include "engine/train/train_step.h"

namespace hearth::strategy {

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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SAMPLED_BATCH_H_
