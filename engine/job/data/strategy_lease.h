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
#include "engine/plan/plan_store.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

/// The strategy of a job and the memory for it: how large batches are, which
/// configuration fits into the memory limit, and a strategy with this
/// configuration, warm or new.

namespace hearth::job {

/// Memory that a model will need.
struct ModelNeed {
  /// Bytes in all for batches of a shape. Called only during the call that this
  /// is passed to.
  absl::FunctionRef<uint64_t(const sample::BatchShape&)> bytes;
  /// See TrainStep::ParameterBytes and TrainStep::KeptBytes.
  uint64_t parameter_bytes = 0;
  uint64_t kept_bytes = 0;
};

/// What a job needs of a strategy.
struct StrategyUse {
  const BatchOptions& data;
  const strategy::PipelineOptions& pipeline;
  /// Labels of the dataset; used only while batches are measured.
  const store::Labels& labels;
  /// One pass of the job for each set of seeds (PassSchedule::Kinds).
  absl::Span<const strategy::Pass> passes;
  /// Width of the embeddings that a history keeps, in numbers.
  int64_t embedding_width = 0;
  const ModelNeed& model;
  /// Partition that orders the seeds; null if they are shuffled.
  const SeedPartition* partition = nullptr;
  /// Type of the copy of the features that the dataset reads; absent if it
  /// reads its own.
  std::optional<store::DType> row_dtype = {};
};

/// How the feature rows that a job reads are verified.
enum class RowVerification {
  kNone,     // The strategy verifies what it loads or packs.
  kEachRow,  // Each row as it is read, by checksums in memory.
  kOnce,     // All features before the first batch.
};

/// The bound of a job's batches, and a configuration whose memory fits the
/// limit.
struct MemoryFit {
  strategy::BatchBound batches;
  /// The strategy's options and threads, cut so that the job fits.
  strategy::StrategyConfiguration chosen;
  /// Budgets in `chosen` that are smaller than asked.
  std::vector<strategy::BudgetCut> cuts;
  /// Memory of the job with `chosen`, including the share "row checksums" if
  /// each row is verified.
  strategy::MemoryEstimate estimate;
  RowVerification rows = RowVerification::kNone;
};

/// Bounds the batches by the fan-outs if that bound is small, otherwise by a
/// dry run. Cuts budgets to what MemoryLedger::most_bytes leaves, whatever
/// other jobs have reserved (strategy::FitBudgets), unless the options are
/// strict; a job that does not fit even then is refused by
/// StrategyLease::Take. Rows are verified one by one if their checksums fit
/// as well: budgets are cut before the checksums are given up. Reserves
/// nothing. Errors as BatchMeasurement::Measure and strategy::EstimateMemory.
absl::StatusOr<MemoryFit> FitToMemory(const JobEnvironment& environment,
                                      const store::Dataset& dataset,
                                      const StrategyUse& use,
                                      std::stop_token stop);

/// RESOURCE_EXHAUSTED, with the numbers and a hint, if `estimate` exceeds
/// MemoryLedger::most_bytes although budgets were cut. OK if they must not be
/// cut: the ledger refuses such a job.
absl::Status CheckFits(const JobEnvironment& environment,
                       const StrategyUse& use,
                       const strategy::MemoryEstimate& estimate);

/// Quantities that determine a strategy's memory, with the threads that were
/// asked for.
strategy::MemoryBasis BasisOf(const JobEnvironment& environment,
                              const store::Dataset& dataset,
                              const StrategyUse& use,
                              const strategy::BatchBound& batches);

/// Adds the shares of a job apart from its strategy: "seeds", "histories",
/// "partition", "model", "runtime".
void AddJobShares(const StrategyUse& use, const strategy::BatchBound& batches,
                  strategy::MemoryEstimate& estimate);

/// Adds the share "model" in the memory of the GPU that trains, if one does,
/// for batches of `shape`.
void AddGpuShare(const train::TrainOptions& options,
                 const train::TrainStep& step, const sample::BatchShape& shape,
                 strategy::MemoryEstimate& estimate);

/// A strategy for the duration of one job, warm from an earlier job or new,
/// with the memory reserved that it and the model may take. Movable; belongs to
/// the job's thread.
class StrategyLease {
 public:
  using Use = StrategyUse;

  /// Finds how large batches are and what has to be cut, reserves memory, and
  /// takes or makes the strategy. A strategy that reads single rows gets their
  /// checksums; if these do not fit, all features are verified first. Takes
  /// `dataset` once the memory is reserved, and leaves it if that is refused.
  /// Errors as FitToMemory, CheckFits, MemoryLedger::Reserve,
  /// store::Dataset::LoadRowChecksums and strategy::NewStrategy. All parts of
  /// `environment` outlive the lease.
  static absl::StatusOr<StrategyLease> Take(
      const JobEnvironment& environment,
      std::unique_ptr<store::Dataset>& dataset, const Use& use,
      Observer& observer, std::stop_token stop);

  strategy::Strategy& strategy() { return *work_.strategy; }
  const store::Dataset& dataset() const { return *work_.dataset; }

  /// Bound of the batches of all passes.
  const strategy::BatchBound& batches() const { return key_.batches; }
  /// Memory that the job has reserved.
  const strategy::MemoryEstimate& memory() const {
    return work_.memory.estimate();
  }
  /// Budgets of the strategy that were cut so that the job fits.
  const std::vector<strategy::BudgetCut>& cuts() const { return cuts_; }
  /// Whether an earlier job has left the strategy.
  bool warm() const { return warm_; }
  /// See TrainReport::verified_once.
  std::vector<std::string> VerifiedOnce() const;

  /// Leaves the strategy to later jobs; `rows` is the lease of the copy that
  /// the dataset reads, if it reads one.
  void Return(std::optional<plan::PlanLease> rows) &&;

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
