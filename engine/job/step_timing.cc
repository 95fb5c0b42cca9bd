#include "engine/job/step_timing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/cache/aligned_buffer.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/residency.h"
#include "engine/strategy/sample_stage.h"
#include "engine/strategy/spread_sampling.h"

namespace hearth::job {
namespace {

// Enough to tell.
constexpr int64_t kBatches = 4;

// Trains on batches, whose shards come one after the other.
class Trainer {
 public:
  Trainer(const TimedTraining& training, train::TrainStep& step)
      : training_(training),
        step_(step),
        feature_dim_(store::CommonFormat(training.dataset.manifest()).dim),
        seeds_(training.pass.order->Epoch(training.pass.epoch_key)) {}

  absl::Status Add(const strategy::ShardPick& pick,
                   const sample::MiniBatch& batch) {
    shards_.push_back(batch);
    labels_.push_back(training_.labels.Gather(
        strategy::ShardSeeds(training_.pass, seeds_, pick.number)));
    if (std::ssize(shards_) < training_.pass.shards) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(Train());
    shards_.clear();
    labels_.clear();
    return absl::OkStatus();
  }

  double SecondsPerBatch() const {
    if (timed_seeds_ == 0) return 0;
    const auto seeds = static_cast<double>(seeds_.size());
    const auto batches = static_cast<double>(
        strategy::NumBatches(std::ssize(seeds_), training_.pass.batch_size));
    return seconds_ / static_cast<double>(timed_seeds_) * seeds / batches;
  }

 private:
  absl::Status Train() {
    HEARTH_RETURN_IF_ERROR(MakeInputs());
    std::vector<train::BatchView> views;
    for (size_t i = 0; i < shards_.size(); ++i) {
      views.push_back({.sample = shards_[i],
                       .inputs = reinterpret_cast<const float*>(inputs_.data()),
                       .feature_dim = feature_dim_,
                       .labels = labels_[i].view()});
    }
    // A single batch warms up for itself.
    if (trained_++ == 0) HEARTH_RETURN_IF_ERROR(Step(views).status());
    HEARTH_ASSIGN_OR_RETURN(const double seconds, Step(views));
    seconds_ += seconds;
    timed_seeds_ += train::NumSeeds(views);
    return absl::OkStatus();
  }

  absl::StatusOr<double> Step(absl::Span<const train::BatchView> views) {
    const double start = training_.clock.SteadySeconds();
    HEARTH_RETURN_IF_ERROR(
        step_.Train(views, {.epoch = 0, .batch = trained_}).status());
    return training_.clock.SteadySeconds() - start;
  }

  // Zeros, written, or all of them would be one page of the processor's cache.
  absl::Status MakeInputs() {
    uint64_t rows = 0;
    for (const sample::MiniBatch& shard : shards_) {
      rows = std::max<uint64_t>(rows, shard.input_nodes.size());
    }
    HEARTH_RETURN_IF_ERROR(inputs_.Resize(
        rows * static_cast<uint64_t>(feature_dim_) * sizeof(float)));
    std::fill(inputs_.data(), inputs_.data() + inputs_.size(), std::byte{0});
    return absl::OkStatus();
  }

  const TimedTraining& training_;
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

}  // namespace

absl::StatusOr<double> TimeTrainStep(const TimedTraining& training,
                                     train::TrainStep& step) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      training.dataset.LoadTopology(
          {store::Residency::kMemory, store::Residency::kMapped},
          training.stop));
  Trainer trainer(training, step);
  const absl::Span<const strategy::Pass> passes(&training.pass, 1);
  HEARTH_RETURN_IF_ERROR(strategy::SampleShards(
      {.clock = training.clock,
       .source = {.topology = *topology, .labels = training.labels},
       .samplers = training.samplers},
      passes, strategy::SpreadOver(passes, kBatches),
      [&](const strategy::ShardPick& pick, const sample::MiniBatch& batch) {
        return trainer.Add(pick, batch);
      },
      training.stop));
  return trainer.SecondsPerBatch();
}

}  // namespace hearth::job
