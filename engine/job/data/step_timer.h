#ifndef HEARTH_ENGINE_JOB_DATA_STEP_TIMER_H_
#define HEARTH_ENGINE_JOB_DATA_STEP_TIMER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cache/row_memory.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sampling.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// Times training steps of a few sampled batches, whose shards arrive one after
/// the other, with zeros for features. The model cannot be used afterwards.
/// Holds a batch and its input rows in memory. Single-owner.
class StepTimer {
 public:
  /// Batches that are enough for an estimate.
  static constexpr int kBatches = 4;

  /// What is timed; all of it outlives the timer.
  struct Training {
    const store::Dataset& dataset;
    const store::Labels& labels;
    const Clock& clock;
    /// A training pass.
    const strategy::Pass& pass;
  };

  StepTimer(const Training& training, train::TrainStep& step);

  /// Adds a shard, and trains when its batch is whole. The first batch is also
  /// trained once untimed. Errors of the step.
  absl::Status Add(const strategy::ShardPick& pick,
                   const sample::MiniBatch& batch);

  /// Mean seconds of a step on a batch of the pass; 0 without any.
  double SecondsPerBatch() const;

 private:
  absl::Status Train();
  absl::StatusOr<double> Step(absl::Span<const train::BatchView> views);
  absl::Status MakeInputs();

  const Training training_;
  train::TrainStep& step_;
  const int64_t feature_dim_;
  const std::vector<store::NodeId> seeds_;
  std::vector<sample::MiniBatch> shards_;
  std::vector<store::Labels> labels_;
  cache::AlignedBuffer inputs_;
  uint64_t trained_ = 0;
  int64_t timed_seeds_ = 0;
  double seconds_ = 0;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_STEP_TIMER_H_
