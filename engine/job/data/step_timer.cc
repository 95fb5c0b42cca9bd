#include "engine/job/data/step_timer.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "engine/base/status.h"
#include "engine/store/feature_rows.h"

namespace hearth::job {

StepTimer::StepTimer(const Training& training, train::TrainStep& step)
    : training_(training),
      step_(step),
      feature_dim_(store::CommonFormat(training.dataset.manifest()).dim),
      seeds_(training.pass.order->Epoch(training.pass.epoch_key)) {}

absl::Status StepTimer::Add(const strategy::ShardPick& pick,
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

double StepTimer::SecondsPerBatch() const {
  if (timed_seeds_ == 0) return 0;
  const auto seeds = static_cast<double>(seeds_.size());
  const auto batches = static_cast<double>(
      strategy::NumBatches(std::ssize(seeds_), training_.pass.batch_size));
  return seconds_ / static_cast<double>(timed_seeds_) * seeds / batches;
}

absl::Status StepTimer::Train() {
  HEARTH_RETURN_IF_ERROR(MakeInputs());
  std::vector<train::BatchView> views;
  for (size_t i = 0; i < shards_.size(); ++i) {
    views.push_back({.sample = shards_[i],
                     .inputs = reinterpret_cast<const float*>(inputs_.data()),
                     .feature_dim = feature_dim_,
                     .labels = labels_[i].view()});
  }
  // The first batch warms up: it is trained twice, once untimed.
  if (trained_++ == 0) HEARTH_RETURN_IF_ERROR(Step(views).status());
  HEARTH_ASSIGN_OR_RETURN(const double seconds, Step(views));
  seconds_ += seconds;
  timed_seeds_ += train::NumSeeds(views);
  return absl::OkStatus();
}

absl::StatusOr<double> StepTimer::Step(
    absl::Span<const train::BatchView> views) {
  const double start = training_.clock.SteadySeconds();
  HEARTH_RETURN_IF_ERROR(
      step_.Train(views, {.epoch = 0, .batch = trained_}).status());
  return training_.clock.SteadySeconds() - start;
}

// Zeros that are written: rows that were only allocated would all map to one
// page, which stays in the processor's cache.
absl::Status StepTimer::MakeInputs() {
  uint64_t rows = 0;
  for (const sample::MiniBatch& shard : shards_) {
    rows = std::max<uint64_t>(rows, shard.input_nodes.size());
  }
  HEARTH_RETURN_IF_ERROR(inputs_.Resize(
      rows * static_cast<uint64_t>(feature_dim_) * sizeof(float)));
  std::fill(inputs_.data(), inputs_.data() + inputs_.size(), std::byte{0});
  return absl::OkStatus();
}

}  // namespace hearth::job
