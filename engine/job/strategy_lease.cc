#include "engine/job/strategy_lease.h"

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/strategy/new_strategy.h"

namespace hearth::job {
namespace {

using strategy::BatchBound;
using strategy::MemoryEstimate;

// An estimate from the fan-outs alone is good enough if it is below this part
// of what jobs may take.
constexpr uint64_t kSmallPart = 16;
// Threads' stacks, queues, the job's own records.
constexpr uint64_t kRuntimeBytes = uint64_t{48} << 20;

// Whether the strategy's budgets follow from the batches as they are.
bool NeedsMeasurement(const strategy::StrategyOptions& options) {
  return std::holds_alternative<strategy::GnndriveOptions>(options);
}

absl::StatusOr<MemoryEstimate> Estimate(const store::Dataset& dataset,
                                        const StrategyLease::Use& use,
                                        const BatchBound& batches) {
  uint64_t seeds = 0;
  int64_t num_batches = 0;
  int64_t total_batches = 0;
  for (const strategy::Pass& pass : use.passes) {
    const size_t count = pass.order->Epoch(0).size();
    seeds += count;
    const int64_t batches =
        strategy::NumBatches(static_cast<int64_t>(count), pass.batch_size);
    num_batches = std::max(num_batches, batches);
    // As if each of them were one of training.
    total_batches += batches * use.data.epochs;
  }
  HEARTH_ASSIGN_OR_RETURN(
      MemoryEstimate estimate,
      strategy::EstimateMemory(
          use.data.strategy, {.manifest = dataset.manifest(),
                              .pipeline = use.pipeline,
                              .batches = batches,
                              .shards = static_cast<int>(use.data.trainers),
                              .num_batches = num_batches,
                              .total_batches = total_batches,
                              .prepares_ahead = use.data.refresh_epochs > 0}));
  // The split's, those in order, and those of the pass.
  estimate.Add("seeds", 3 * sizeof(store::NodeId) * seeds);
  estimate.Add("model", use.model_bytes(batches.WithMargin()));
  estimate.Add("runtime", kRuntimeBytes);
  return estimate;
}

// How large batches are, and what follows from it for the job's memory.
struct Sizes {
  BatchBound batches;
  MemoryEstimate estimate;
};

absl::StatusOr<Sizes> FindSizes(const JobEnvironment& environment,
                                const store::Dataset& dataset,
                                const StrategyLease::Use& use,
                                std::stop_token stop) {
  const MeasuredPasses passes = {
      .dataset = dataset, .labels = use.labels, .passes = use.passes};
  if (!NeedsMeasurement(use.data.strategy)) {
    Sizes sizes = {.batches = BoundBatches(passes), .estimate = {}};
    HEARTH_ASSIGN_OR_RETURN(sizes.estimate,
                            Estimate(dataset, use, sizes.batches));
    if (sizes.estimate.TotalBytes() <=
        environment.memory.limit_bytes() / kSmallPart) {
      return sizes;
    }
  }
  Sizes sizes;
  HEARTH_ASSIGN_OR_RETURN(sizes.batches,
                          environment.batch_measurement.Measure(
                              passes, use.pipeline.samplers, std::move(stop)));
  HEARTH_ASSIGN_OR_RETURN(sizes.estimate,
                          Estimate(dataset, use, sizes.batches));
  return sizes;
}

}  // namespace

absl::StatusOr<StrategyLease> StrategyLease::Take(
    const JobEnvironment& environment, std::unique_ptr<store::Dataset> dataset,
    const Use& use, Observer& observer, std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(Sizes sizes,
                          FindSizes(environment, *dataset, use, stop));
  StrategyKey key = {.dataset_path = use.data.dataset_path,
                     .fingerprint = dataset->manifest().fingerprint,
                     .strategy = use.data.strategy,
                     .pipeline = use.pipeline,
                     .batches = std::move(sizes.batches)};
  std::optional<WarmStrategy> kept = environment.warm_strategies.Take(key);
  const bool warm = kept.has_value();
  if (!warm) {
    HEARTH_ASSIGN_OR_RETURN(ScratchFolder scratch,
                            environment.warm_strategies.NewScratch());
    kept = WarmStrategy{.memory = {},
                        .dataset = std::move(dataset),
                        .scratch = std::move(scratch),
                        .strategy = nullptr};
  }
  StrategyLease lease(environment.warm_strategies, std::move(key),
                      *std::move(kept), warm);
  WarmStrategy& work = lease.work_;
  observer.OnLog(Severity::kInfo,
                 absl::StrCat("memory: at most ",
                              FormatByteSize(sizes.estimate.TotalBytes()), " (",
                              strategy::FormatShares(sizes.estimate), ")"));
  HEARTH_RETURN_IF_ERROR(environment.memory.Reserve(
      sizes.estimate, work.memory, std::move(stop),
      [&](const std::string& text) { observer.OnLog(Severity::kInfo, text); }));
  if (!warm) {
    HEARTH_ASSIGN_OR_RETURN(
        work.strategy,
        strategy::NewStrategy(use.data.strategy, use.pipeline, *work.dataset,
                              {.read_queues = environment.read_queues,
                               .clock = environment.clock,
                               .scratch_folder = work.scratch.path(),
                               .plans = &environment.plans,
                               .files = environment.files,
                               .gpu = environment.gpu}));
  }
  return lease;
}

void StrategyLease::Return() && {
  warm_strategies_->Keep(std::move(key_), std::move(work_));
}

}  // namespace hearth::job
