#include "engine/job/strategy_lease.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/strategy/kinds.h"

namespace hearth::job {

absl::StatusOr<StrategyLease> StrategyLease::Take(
    const JobEnvironment& environment, std::unique_ptr<store::Dataset> dataset,
    const Use& use, Observer& observer, std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(JobSizes sizes,
                          FindJobSizes(environment, *dataset, use, stop));
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
  HEARTH_RETURN_IF_ERROR(
      environment.memory.Reserve(sizes.estimate, work.memory));
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
