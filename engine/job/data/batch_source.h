#ifndef HEARTH_ENGINE_JOB_DATA_BATCH_SOURCE_H_
#define HEARTH_ENGINE_JOB_DATA_BATCH_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/job/data/opened_job.h"
#include "engine/job/data/passes.h"
#include "engine/job/data/strategy_lease.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/store/graph.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

class AheadPreparation;

/// Delivers the batches of a job: opens the dataset, holds the strategy,
/// prepares the epochs and runs the passes. Knows no model and no checkpoint: a
/// ModelTrainer trains on the batches, and the caller chooses the passes.
/// Single-owner: belongs to the thread of the run.
class BatchSource {
 public:
  using Options = OpenJobOptions;

  /// Opens the dataset, and finds or makes the partition that orders its seeds.
  /// `observer` hears of warnings about its split and of the progress of
  /// preparations. Errors as OpenJob. All arguments outlive the source.
  static absl::StatusOr<std::unique_ptr<BatchSource>> Open(
      const JobEnvironment& environment, const Options& options,
      Observer& observer, std::stop_token stop);
  ~BatchSource();
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  const store::Dataset& dataset() const;
  const PassSchedule& passes() const { return opened_->passes; }
  /// The partition that orders the seeds, found or made; absent if the seeds
  /// are shuffled.
  std::optional<strategy::PreparationReport> partition() const {
    if (!opened_->partition.has_value()) return std::nullopt;
    return opened_->partition->report;
  }

  /// History of the training passes; absent without one.
  const std::optional<HistoryChoice>& history() const {
    return opened_->history;
  }

  /// Type that rows were rounded to; absent if they are as they are stored.
  std::optional<store::DType> row_dtype() const {
    if (!opened_->rows.has_value()) return std::nullopt;
    return opened_->rows->dtype;
  }

  /// Memory that was reserved while the copy of the rows or the partition was
  /// made, whichever is more; empty if neither was made.
  strategy::MemoryEstimate opening_memory() const;

  /// Chooses the strategy, if it is to be chosen; reserves memory for it and
  /// for `model`, and takes a warm strategy or makes one. Call once, before the
  /// calls below; again, for another model, only while memory is refused.
  /// Errors as ChooseStrategy and StrategyLease::Take.
  absl::Status TakeStrategy(const ModelNeed& model);
  /// The strategy's options, before budgets are cut.
  const strategy::StrategyOptions& strategy() const {
    return opened_->data.strategy;
  }
  /// The choice of the strategy; absent where the job names one.
  const std::optional<AutoChoice>& automatic() const { return automatic_; }
  /// Logs, once, that a whole training pass took much longer than the choice of
  /// the strategy was based on.
  void CompareWithChoice(const strategy::PassReport& pass);
  /// Whether another strategy may be much faster for the epochs behind
  /// `trained_epochs`, out of `epochs` in all, as far as CompareWithChoice can
  /// tell. If so, the job's folder keeps that the next source chooses its
  /// strategy again; where it cannot, the job stays with its strategy.
  bool LeavesStrategy(int64_t trained_epochs, int64_t epochs);

  /// Whether TakeStrategy got the memory, even if it failed afterwards.
  bool has_memory() const { return opened_->dataset == nullptr; }

  /// Prepares the passes of a period of epochs (PassSchedule::OfPeriod); with
  /// StrategyKind::prepares_throughout, all passes from that period on. Errors
  /// as Strategy::Prepare.
  absl::StatusOr<strategy::PreparationReport> PreparePeriod(int64_t period);

  /// Prepares the passes of the period to which `epoch`, from 0, belongs,
  /// unless that is done, and starts to prepare the next period's on another
  /// thread; with StrategyKind::prepares_throughout, all passes from the first
  /// `epoch` on, unless anything is prepared.
  absl::Status PrepareEpoch(int64_t epoch);

  /// The same for `job`, one of those that share the passes, whose epoch
  /// `epoch` comes next: strategies that prepare throughout do so for all of
  /// its epochs.
  absl::Status PrepareJob(const BatchOptions& job, int64_t epoch);

  /// Passes log lines of the preparation on the other thread since the last
  /// call to the observer.
  void LogAhead();

  /// Counts the graph's self loops at the first call; reserve SelfLoopBytes for
  /// them. Null if there are none, and for a graph of several types. Errors as
  /// store::SelfLoops::Count.
  absl::StatusOr<const store::SelfLoops*> CountSelfLoops();

  /// Delivers all batches of `pass`, one of passes(), to `consumer`. Errors and
  /// `report` as of Strategy::Run; if the strategy does not know the bytes
  /// read, the report has the bytes that the process read, provided that no
  /// other job ran meanwhile.
  absl::Status RunPass(const strategy::Pass& pass,
                       const strategy::Strategy::Consumer& consumer,
                       strategy::PassReport& report);

  /// Report of the running pass as if it ended now. REQUIRES: called during a
  /// call of RunPass's consumer, on any thread.
  strategy::PassReport PassSoFar() const;

  /// Size of the largest batch of all passes, with a margin.
  sample::BatchShape largest_batch() const {
    return lease_->batches().WithMargin();
  }
  /// Whether an earlier job left the strategy, with topology and caches.
  bool warm() const { return lease_->warm(); }
  /// See TrainReport::verified_once.
  std::vector<std::string> verified_once() const {
    return lease_->VerifiedOnce();
  }
  /// Memory that TakeStrategy reserved.
  const strategy::MemoryEstimate& memory() const { return lease_->memory(); }
  /// Budgets of the strategy that were cut so that the job fits into memory.
  const std::vector<strategy::BudgetCut>& cuts() const {
    return lease_->cuts();
  }
  /// Periods for which PrepareEpoch prepared something, in order.
  const std::vector<PeriodPreparation>& preparations() const {
    return preparations_;
  }

  /// Ends the preparation on the other thread and leaves the strategy, if there
  /// is one, to later jobs. Call nothing afterwards. Do not call after an error
  /// other than CANCELLED, which leaves the strategy in an unknown state.
  void ReturnStrategy();

 private:
  // Start of a pass: bytes that the process reads from here on belong to the
  // pass if no other job runs.
  struct ReadStart {
    RunningJobs::Moment moment;
    uint64_t bytes;
  };

  struct RunningPass {
    ReadStart start;
    const strategy::PassReport& report;
  };

  BatchSource(const JobEnvironment& environment, const Options& options,
              Observer& observer, std::stop_token stop);

  bool PreparesThroughout() const;
  absl::Status PrepareThroughout(const BatchOptions& job, int64_t epoch);
  // Marks the copy of the rows as damaged if `status` says so.
  const absl::Status& Noted(const absl::Status& status) const;
  absl::StatusOr<std::optional<strategy::PreparationReport>> FinishAhead();
  absl::Status Choose(const ModelNeed& model);
  // Warns once if queues of passes got less than they asked for.
  void LogReducedQueues(int64_t reduced_before);
  void AddBytesRead(const ReadStart& start, strategy::PassReport& report) const;

  const JobEnvironment& environment_;
  const Options options_;
  Observer& observer_;
  const std::stop_token stop_;
  const RunningJobs::Job running_;
  // TakeStrategy moves the dataset to the lease and drops the labels.
  std::optional<OpenedJob> opened_;
  std::optional<StrategyLease> lease_;
  std::optional<AutoChoice> automatic_;
  // Training passes that were compared with the choice, and seconds of a later
  // epoch by the first pass that was found to be slow; 0 = none was.
  int64_t compared_passes_ = 0;
  double slow_epoch_seconds_ = 0;
  std::optional<store::SelfLoops> self_loops_;
  // Period that the strategy is prepared for; -1 = none yet.
  int64_t period_ = -1;
  std::vector<PeriodPreparation> preparations_;
  std::optional<RunningPass> pass_;
  bool has_told_of_reduced_queues_ = false;
  // Preparation of the next period. Declared last: it uses the lease's strategy
  // and must end before it.
  std::unique_ptr<AheadPreparation> ahead_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_BATCH_SOURCE_H_
