#ifndef HEARTH_ENGINE_JOB_RUN_TRAIN_RUN_H_
#define HEARTH_ENGINE_JOB_RUN_TRAIN_RUN_H_

#include <cstdint>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/job/data/batch_source.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/model_trainer.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// A job on board of a run: its trainer, and where its results go. What the run
/// calls of trainer and observer, it calls through JobHost::ForAll; else it
/// only looks.
struct AttachedJob {
  const TrainJobOptions& options;
  Observer& observer;
  TrainMetrics& metrics;
  ModelTrainer& trainer;
  /// Asks it to leave, after a checkpoint.
  std::stop_token stop;
  /// When the job began, on the steady clock, in seconds.
  double begin_seconds = 0;
  /// Whether the observer has heard that the job runs.
  bool is_running = false;
  /// Whether the report of trainer.last_epoch() is still to be passed on.
  bool report_pending = true;
  /// It leaves after so many epochs, without a test; absent: after its last.
  std::optional<int64_t> until_epoch = {};

  // Set by the run.
  std::optional<double> first_batch_seconds = {};
  Peers peers = {};
};

/// An epoch that a job has ended.
struct EndedEpoch {
  AttachedJob& job;
  const EpochReport& report;
  /// The answer: why the job cannot go on.
  absl::Status status = absl::OkStatus();
};

/// Where a run's jobs come from, on which threads they work, and where they
/// go. Called from the run's thread alone.
class JobHost {
 public:
  virtual ~JobHost() = default;

  /// Gives those that come on board now. Where none is on board it waits for
  /// one; none then = the run is over. `next_epoch` is the epoch that those on
  /// board go on with (BatchOptions::EpochOfBatches); absent if none is.
  virtual std::vector<AttachedJob*> Attach(
      std::optional<int64_t> next_epoch) = 0;

  /// Makes a call for each of `jobs`, on its own thread, several at a time,
  /// and returns once all are done: the status of each.
  virtual std::vector<absl::Status> ForAll(
      absl::Span<AttachedJob* const> jobs,
      absl::FunctionRef<absl::Status(AttachedJob&)> call) = 0;

  /// The number of steps that ForAll makes at a time, at most.
  virtual int max_steps() const = 0;

  /// Passes on the reports of epochs that jobs have ended together, before
  /// any of them goes on.
  virtual void Report(absl::Span<EndedEpoch> epochs) = 0;

  /// Jobs have ended an epoch, and another pass over its data takes
  /// `pass_seconds`. The one that is to go on by itself; null = none.
  virtual AttachedJob* PickSlowest(double pass_seconds) = 0;

  /// A pass that several jobs shared saved them so many bytes of reading.
  virtual void OnShared(int64_t bytes) = 0;

  /// A job goes, with its result; the run does not use it any more.
  virtual void Detach(AttachedJob& job, absl::StatusOr<TrainReport> result) = 0;
};

/// Trains one or more jobs on the batches of one data run: each
/// pass is read once for all jobs that need it. A job that fails, or is
/// asked to stop, leaves at the next batch, and the others go on; each one's
/// losses are those that it would have alone. Jobs whose next epochs differ
/// take turns, in an order in which they meet soon. Single-owner: belongs to
/// one thread, which need not be a job's.
class TrainRun {
 public:
  struct Dependencies {
    BatchSource& source;
    MemoryLedger& memory;
    const Clock& clock;
    JobHost& host;
  };

  /// All that `dependencies` refers to outlives this.
  explicit TrainRun(const Dependencies& dependencies)
      : source_(dependencies.source),
        ledger_(dependencies.memory),
        clock_(dependencies.clock),
        host_(dependencies.host),
        models_(dependencies.memory, dependencies.host.max_steps()) {}
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;

  /// Runs until no job is left. An error of the data path, or CANCELLED when
  /// the data run's stop was requested, is also the result of all jobs that
  /// were on board; on CANCELLED they have written checkpoints. After another
  /// error the state of the strategy is unknown. The reports of jobs have
  /// all but the process's memory. Call once.
  absl::Status Run();

 private:
  using AttachedJobs = std::vector<AttachedJob*>;

  absl::Status RunAll();
  absl::Status Start(AttachedJobs& jobs);
  absl::Status StartWith(AttachedJob& first);
  absl::Status BeginJobs(const AttachedJobs& jobs);
  std::optional<int64_t> PickEpoch();
  absl::Status EndEpochs();
  void Report();
  absl::Status EndJobs();
  void Finish(AttachedJob& job, const strategy::PassReport& test);
  void DetachSlowest();
  TrainReport Complete(const AttachedJob& job, TrainReport report) const;
  absl::Status RunEpoch(int64_t epoch);
  absl::Status Train(int64_t epoch);
  absl::Status Evaluate(const strategy::Pass& pass,
                        strategy::PassReport& report);
  absl::Status RunPass(
      const strategy::Pass& pass, AttachedJobs jobs,
      absl::FunctionRef<void(absl::Span<const train::BatchView>)> deliver,
      strategy::PassReport& report);
  absl::Status DetachStopped();
  void ForAll(const AttachedJobs& jobs,
              absl::FunctionRef<absl::Status(AttachedJob&)> call);
  void Detach(AttachedJob& job, absl::StatusOr<TrainReport> result);

  BatchSource& source_;
  MemoryLedger& ledger_;
  const Clock& clock_;
  JobHost& host_;
  ModelMemory models_;
  bool started_ = false;
  // Those on board, those of them that are in the epoch that is next or runs,
  // and those of these that get the batches of the pass that runs.
  AttachedJobs attached_;
  AttachedJobs in_epoch_;
  AttachedJobs in_pass_;
  // Whether that pass is one of training.
  bool is_training_ = false;
  // Seconds of the data alone of the epoch that has just ended.
  std::optional<double> pass_seconds_;
};

/// The one of `epochs` to go on with, of jobs that have each come to one of
/// them, out of `num_epochs` that repeat: the first after the longest gap. From
/// there on those that are behind meet the others after the fewest passes.
/// REQUIRES: one epoch at least, each from 0 to num_epochs - 1.
int64_t FirstAfterLongestGap(const std::set<int64_t>& epochs,
                             int64_t num_epochs);

/// Trains one trainer from a data run of its own (TrainRun), all on the
/// caller's thread. CANCELLED when the job or the data run was asked to stop:
/// the trainer has then written a checkpoint.
absl::StatusOr<TrainReport> TrainAlone(const JobEnvironment& environment,
                                       BatchSource& source, AttachedJob job);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_TRAIN_RUN_H_
