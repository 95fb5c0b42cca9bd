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
#include "engine/store/dataset.h"
#include "engine/store/graph.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

class AheadPreparation;

/// Delivers the batches of a job: has the dataset open, holds the strategy,
/// prepares the epochs and runs the passes. It knows no model and no
/// checkpoint: a ModelTrainer trains on what it delivers, and the passes it is
/// told to run say where. Single-owner: belongs to the thread of the run.
class BatchSource {
 public:
  struct Options {
    const BatchOptions& data;
    const strategy::PipelineOptions& pipeline;
    /// Nothing is validated or tested.
    bool training_only = false;
    /// Width of the model's embeddings (train::HiddenWidth).
    int64_t embedding_width = 0;
    /// The job's own folder, which keeps the choice of its history; may be
    /// empty.
    std::string folder = {};
  };

  /// Opens the dataset, and finds or makes the partition that orders its seeds.
  /// `observer` hears what is odd about its split, and how preparations go.
  /// Errors as OpenJob. All arguments outlive this.
  static absl::StatusOr<std::unique_ptr<BatchSource>> Open(
      const JobEnvironment& environment, const Options& options,
      Observer& observer, std::stop_token stop);
  ~BatchSource();
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  const store::Dataset& dataset() const;
  const PassSchedule& passes() const { return data_->passes; }
  /// The partition that orders the seeds, found or made; absent if none does.
  std::optional<strategy::PreparationReport> partition() const {
    if (!data_->partition.has_value()) return std::nullopt;
    return data_->partition->report;
  }

  /// History of the training passes; absent without one.
  const std::optional<HistoryChoice>& history() const { return data_->history; }

  /// The memory that was reserved while the partition was made; empty if none
  /// was.
  strategy::MemoryEstimate partitioning_memory() const {
    return data_->partition.has_value() ? data_->partition->making_memory
                                        : strategy::MemoryEstimate();
  }

  /// Reserves memory for the strategy and for `model`, and takes a warm
  /// strategy or makes one. To be called before what follows, once, or again
  /// for another model while memory is refused. Errors as StrategyLease::Take.
  absl::Status TakeStrategy(const ModelNeed& model);
  /// Whether TakeStrategy got as far as having the memory.
  bool has_memory() const { return data_->dataset == nullptr; }

  /// Prepares the passes of a period of epochs (PassSchedule::OfPeriod). Errors
  /// as Strategy::Prepare.
  absl::StatusOr<strategy::PreparationReport> PreparePeriod(int64_t period);

  /// Prepares the passes of the period that `epoch`, from 0, belongs to, unless
  /// that is done, and starts to prepare the next period's on another thread.
  absl::Status PrepareEpoch(int64_t epoch);

  /// Gives the observer the log lines of the preparation on the other thread
  /// since the last call.
  void LogAhead();

  /// The graph's self loops, counted at the first call: for which memory has to
  /// be reserved (SelfLoopBytes). Null where there are none, and for a graph of
  /// several types. Errors as store::SelfLoops::Count.
  absl::StatusOr<const store::SelfLoops*> CountSelfLoops();

  /// Delivers all batches of `pass`, one of passes(), to `consumer`. Errors and
  /// `report` as of Strategy::Run; where the strategy does not know the bytes
  /// read, they are those of the process if no other job ran meanwhile.
  absl::Status RunPass(const strategy::Pass& pass,
                       const strategy::Strategy::Consumer& consumer,
                       strategy::PassReport& report);

  /// The running pass so far, as its report would be if it ended now. REQUIRES:
  /// called while the consumer of RunPass is, on any thread.
  strategy::PassReport PassSoFar() const;

  /// The size of the largest batch of all passes, with a margin.
  sample::BatchShape largest_batch() const {
    return lease_->batches().WithMargin();
  }
  /// Whether an earlier job left the strategy, with topology and caches.
  bool warm() const { return lease_->warm(); }
  /// As TrainReport::verified_once.
  std::vector<std::string> verified_once() const {
    return lease_->VerifiedOnce();
  }
  /// The memory that TakeStrategy reserved.
  const strategy::MemoryEstimate& memory() const { return lease_->memory(); }
  /// Budgets of the strategy that are smaller than asked, so that the job fits
  /// into memory.
  const std::vector<strategy::BudgetCut>& cuts() const {
    return lease_->cuts();
  }
  /// Periods for which PrepareEpoch prepared something, in order.
  const std::vector<PeriodPreparation>& preparations() const {
    return preparations_;
  }

  /// Ends the preparation on the other thread and leaves the strategy, if there
  /// is one, to jobs to come. Not to be called after an error other than
  /// CANCELLED, which leaves the strategy in an unknown state. Nothing else may
  /// follow.
  void ReturnStrategy();

 private:
  // The start of a pass: from here on, bytes that the process reads are the
  // pass's if no other job runs.
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

  absl::StatusOr<std::optional<strategy::PreparationReport>> FinishAhead();
  // Tells once that the queues of passes got less than they asked for.
  void LogReducedQueues(int64_t reduced_before);
  void AddBytesRead(const ReadStart& start, strategy::PassReport& report) const;

  const JobEnvironment& environment_;
  const Options options_;
  Observer& observer_;
  const std::stop_token stop_;
  const RunningJobs::Job running_;
  // The dataset moves on to the lease, and labels go once it is there.
  std::optional<OpenedJob> data_;
  std::optional<StrategyLease> lease_;
  std::optional<store::SelfLoops> self_loops_;
  // The period that the strategy is prepared for; -1 = none yet.
  int64_t period_ = -1;
  std::vector<PeriodPreparation> preparations_;
  std::optional<RunningPass> pass_;
  bool has_told_of_reduced_queues_ = false;
  // Prepares the next period. Uses the lease's strategy, so it ends first.
  std::unique_ptr<AheadPreparation> ahead_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_BATCH_SOURCE_H_
