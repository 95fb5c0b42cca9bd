#ifndef HEARTH_ENGINE_JOB_STRATEGY_LEASE_H_
#define HEARTH_ENGINE_JOB_STRATEGY_LEASE_H_

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/job/job_environment.h"
#include "engine/job/job_sizes.h"
#include "engine/job/observer.h"
#include "engine/job/warm_strategies.h"
#include "engine/store/dataset.h"
#include "engine/strategy/batch_bound.h"
#include "engine/strategy/budget.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// A strategy for the length of one job, with the memory reserved that it and
/// the model may take: one that an earlier job has left warm, or a new one.
/// Movable; belongs to the job's thread.
class StrategyLease {
 public:
  using Use = StrategyUse;

  /// Finds out how large batches are and what has to be cut, reserves memory,
  /// and takes or makes the strategy. A strategy that reads single rows gets
  /// their checksums; where these cannot be had, all features are verified
  /// first. Takes `dataset` once the memory is reserved; leaves it where that
  /// is refused. Errors as FindJobSizes, CheckFits, MemoryLedger::Reserve,
  /// store::Dataset::LoadRowChecksums and strategy::NewStrategy. All parts of
  /// `environment` outlive it.
  static absl::StatusOr<StrategyLease> Take(
      const JobEnvironment& environment,
      std::unique_ptr<store::Dataset>& dataset, const Use& use,
      Observer& observer, std::stop_token stop);

  strategy::Strategy& strategy() { return *work_.strategy; }
  const store::Dataset& dataset() const { return *work_.dataset; }

  /// How large the batches of all passes are.
  const strategy::BatchBound& batches() const { return key_.batches; }
  /// The memory that the job reserved.
  const strategy::MemoryEstimate& memory() const {
    return work_.memory.estimate();
  }
  /// Budgets of the strategy that are smaller than asked, so that the job fits.
  const std::vector<strategy::BudgetCut>& cuts() const { return cuts_; }
  /// Whether an earlier job has left it.
  bool warm() const { return warm_; }
  /// As TrainReport::verified_once.
  std::vector<std::string> VerifiedOnce() const;

  /// Leaves the strategy to jobs to come.
  void Return() &&;

 private:
  StrategyLease(WarmStrategies& warm_strategies, StrategyKey key,
                WarmStrategy work, std::vector<strategy::BudgetCut> cuts,
                bool warm)
      : warm_strategies_(&warm_strategies),
        key_(std::move(key)),
        work_(std::move(work)),
        cuts_(std::move(cuts)),
        warm_(warm) {}

  WarmStrategies* warm_strategies_;
  StrategyKey key_;
  WarmStrategy work_;
  std::vector<strategy::BudgetCut> cuts_;
  bool warm_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_STRATEGY_LEASE_H_
