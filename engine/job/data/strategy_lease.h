#ifndef HEARTH_ENGINE_JOB_DATA_STRATEGY_LEASE_H_
#define HEARTH_ENGINE_JOB_DATA_STRATEGY_LEASE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/job/data/seed_partition.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/memory/warm_strategies.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// The memory of a model that is yet to be made.
struct ModelNeed {
  /// All of it, for batches of a shape; the call that it is passed to alone
  /// makes use of it.
  absl::FunctionRef<uint64_t(const sample::BatchShape&)> bytes;
  /// TrainStep::ParameterBytes and KeptBytes.
  uint64_t parameter_bytes = 0;
  uint64_t kept_bytes = 0;
};

/// The use that a job makes of a strategy.
struct StrategyUse {
  const BatchOptions& data;
  const strategy::PipelineOptions& pipeline;
  /// Those of the dataset; needed while batches are measured alone.
  const store::Labels& labels;
  /// All passes of the job that differ in their seeds.
  absl::Span<const strategy::Pass> passes;
  /// Width of the embeddings that a history keeps.
  int64_t embedding_width = 0;
  const ModelNeed& model;
  /// The partition that orders the seeds; null if none does.
  const SeedPartition* partition = nullptr;
};

/// How the feature rows that a job reads are verified.
enum class RowVerification {
  kNone,     // The strategy verifies what it loads or packs.
  kEachRow,  // Each row as it is read, by checksums in memory.
  kOnce,     // All features before the first batch.
};

/// How large a job's batches are, and what follows from it for its memory.
struct MemoryFit {
  strategy::BatchBound batches;
  /// The strategy's options and threads, cut so that the job fits.
  strategy::StrategyConfiguration chosen;
  /// Budgets among them that are smaller than asked.
  std::vector<strategy::BudgetCut> cuts;
  /// The memory of what is chosen; with the share "row checksums" where each
  /// row is verified.
  strategy::MemoryEstimate estimate;
  RowVerification rows = RowVerification::kNone;
};

/// Bounds the batches by the fan-outs, where that is little, else by a dry run.
/// Budgets are cut to what MemoryLedger::most_bytes leaves, whatever others
/// have reserved (strategy::FitBudgets), unless the options are strict; a job
/// that does not even fit then is told so by MemoryLedger::Reserve. Rows are
/// verified one by one if the checksums fit, too: budgets are cut before these
/// are given up. Reserves nothing. Errors as BatchMeasurement::Measure
/// and strategy::EstimateMemory.
absl::StatusOr<MemoryFit> FitToMemory(const JobEnvironment& environment,
                                      const store::Dataset& dataset,
                                      const StrategyUse& use,
                                      std::stop_token stop);

/// RESOURCE_EXHAUSTED, with the numbers and with what needs less, where
/// `estimate` is more than MemoryLedger::most_bytes, though budgets were cut.
/// OK where they must not be cut: the ledger refuses those.
absl::Status CheckFits(const JobEnvironment& environment,
                       const StrategyUse& use,
                       const strategy::MemoryEstimate& estimate);

/// The figures that a strategy's memory follows from, with the threads that
/// were asked for.
strategy::MemoryBasis BasisOf(const JobEnvironment& environment,
                              const store::Dataset& dataset,
                              const StrategyUse& use,
                              const strategy::BatchBound& batches);

/// Adds what a job holds beside its strategy: "seeds", "partition", "model",
/// "runtime".
void AddJobShares(const StrategyUse& use, const strategy::BatchBound& batches,
                  strategy::MemoryEstimate& estimate);

/// Adds "model" in the memory of the GPU that trains it, if one does, for
/// batches of `shape`.
void AddGpuShare(const train::TrainOptions& options,
                 const train::TrainStep& step, const sample::BatchShape& shape,
                 strategy::MemoryEstimate& estimate);

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
  /// is refused. Errors as FitToMemory, CheckFits, MemoryLedger::Reserve,
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

#endif  // HEARTH_ENGINE_JOB_DATA_STRATEGY_LEASE_H_
