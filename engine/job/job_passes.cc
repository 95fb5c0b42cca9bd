#include "engine/job/job_passes.h"

#include <algorithm>
#include <utility>

namespace hearth::job {
namespace {

// Epoch keys of the passes that are sampled once; no training epoch has them.
constexpr uint64_t kValidationKey = UINT64_MAX;
constexpr uint64_t kTestKey = UINT64_MAX - 1;

}  // namespace

JobPasses::JobPasses(const DataOptions& data,
                     std::unique_ptr<sample::SeedOrder> training,
                     std::vector<store::NodeId> valid,
                     std::vector<store::NodeId> test,
                     std::vector<std::vector<int32_t>> fanouts_of)
    : data_(data),
      fanouts_of_(std::move(fanouts_of)),
      train_order_(std::move(training)),
      valid_order_(sample::NewSequentialOrder(std::move(valid))),
      test_order_(sample::NewSequentialOrder(std::move(test))) {}

strategy::Pass JobPasses::Of(const sample::SeedOrder& order,
                             uint64_t epoch_key) const {
  return {.order = &order,
          .sampler = {.fanouts = data_.fanouts,
                      .data_seed = data_.data_seed,
                      .layer_nodes = data_.layer_nodes,
                      .fanouts_of = fanouts_of_},
          .batch_size = data_.batch_size,
          .shards = data_.trainers,
          .epoch_key = epoch_key,
          .batches = batches_};
}

strategy::Pass JobPasses::Training(int64_t epoch) const {
  const int64_t period = PeriodOf(epoch);
  const int64_t keys = data_.NumEpochKeys();
  const int64_t key = period * keys + (epoch - FirstEpochOf(period)) % keys;
  strategy::Pass pass = Of(*train_order_, static_cast<uint64_t>(key));
  pass.history = history_.get();
  return pass;
}

strategy::Pass JobPasses::Validation() const {
  return Of(*valid_order_, kValidationKey);
}

strategy::Pass JobPasses::Testing() const { return Of(*test_order_, kTestKey); }

std::vector<strategy::Pass> JobPasses::Kinds() const {
  return {Training(0), Validation(), Testing()};
}

int64_t JobPasses::num_periods() const {
  return data_.epochs == 0 ? 1 : PeriodOf(data_.epochs - 1) + 1;
}

int64_t JobPasses::PeriodOf(int64_t epoch) const {
  return data_.refresh_epochs == 0 ? 0 : epoch / data_.refresh_epochs;
}

int64_t JobPasses::FirstEpochOf(int64_t period) const {
  return period * data_.refresh_epochs;
}

std::vector<strategy::Pass> JobPasses::OfPeriod(int64_t period) const {
  const int64_t first = FirstEpochOf(period);
  const int64_t end =
      std::min(data_.refresh_epochs == 0
                   ? data_.epochs
                   : std::min(data_.epochs, first + data_.refresh_epochs),
               first + data_.NumEpochKeys());
  std::vector<strategy::Pass> passes;
  passes.reserve(end - first + 2);
  for (int64_t epoch = first; epoch < end; ++epoch) {
    passes.push_back(Training(epoch));
  }
  if (num_valid() > 0) passes.push_back(Validation());
  if (num_test() > 0) passes.push_back(Testing());
  return passes;
}

}  // namespace hearth::job
