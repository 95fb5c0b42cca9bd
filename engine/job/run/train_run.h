#ifndef HEARTH_ENGINE_JOB_RUN_TRAIN_RUN_H_
#define HEARTH_ENGINE_JOB_RUN_TRAIN_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/job/data/batch_source.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/pass_board.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/member.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

/// The loop that trains jobs on the batches of one BatchSource (TrainRun), and
/// the interface through which it reaches the jobs (JobHost). TrainAlone is the
/// loop for a single job; SharedPassGroup (shared_pass.h) hosts several.
///
/// A TrainRun calls its host from one thread only. It changes the state of a
/// job's member and calls its observer through JobHost::ForAll, hence on the
/// thread that the host chose for the job.

namespace hearth::job {

/// A job that takes part in a TrainRun: its member, and who hears of it.
struct AttachedJob {
  const TrainJobOptions& options;
  Observer& observer;
  TrainMetrics& metrics;
  Member& member;
  /// Asks the job to stop: it writes a checkpoint and is detached.
  std::stop_token stop;
  /// Start of the job, in seconds on the steady clock.
  double begin_seconds = 0;
  /// Whether the observer has heard that the job runs.
  bool is_running = false;
  /// Number of epochs after which the job is detached, without a test. Absent:
  /// it trains all its epochs and is tested.
  std::optional<int64_t> until_epoch = {};

  // Set by the run.
  Wish wish = {};
  /// Evaluations that it has had since the last training pass of any job.
  std::set<Wish::Kind> evaluated = {};
  std::optional<double> first_batch_seconds = {};
  Peers peers = {};
};

/// An epoch that an attached job has ended.
struct EndedEpoch {
  AttachedJob& job;
  const EpochReport& report;
  /// Set by JobHost::Report: an error detaches the job.
  absl::Status status = absl::OkStatus();
};

/// Owner of the jobs of a TrainRun: attaches them, runs calls on their threads
/// and takes their results. Called from the run's thread alone.
class JobHost {
 public:
  virtual ~JobHost() = default;

  /// Returns jobs that are to be attached now. If no job is attached it waits
  /// for one; an empty result then ends the run. `next_epoch` is the epoch with
  /// which the attached jobs continue (BatchOptions::EpochOfBatches), absent if
  /// no job is attached.
  virtual std::vector<AttachedJob*> Attach(
      std::optional<int64_t> next_epoch) = 0;

  /// The run begins a pass, in which `jobs` take part. `epoch` is 0 but for
  /// kTraining.
  virtual void OnPass(PassTurn::Kind /*kind*/, int64_t /*epoch*/,
                      absl::Span<AttachedJob* const> /*jobs*/) {}

  /// Whether the run does what another machine's run does: it then calls
  /// AwaitTurn, and neither Attach nor OnPass.
  virtual bool follows() const { return false; }

  /// A PassTurn, with the jobs that are here.
  struct Turn {
    PassTurn::Kind kind = PassTurn::Kind::kNone;
    int64_t epoch = 0;
    /// Jobs that are to be attached before the pass.
    std::vector<AttachedJob*> more = {};
    std::vector<AttachedJob*> in_pass = {};
  };
  /// Waits for what comes next; nullopt ends the run: no job is left. The turn
  /// is empty if something has happened to an attached job.
  virtual std::optional<Turn> AwaitTurn() { return std::nullopt; }

  /// Calls `call` for each of `jobs` on the job's own thread, at most
  /// max_steps() at a time, and returns the statuses, in the order of `jobs`,
  /// once all calls have returned.
  virtual std::vector<absl::Status> ForAll(
      absl::Span<AttachedJob* const> jobs,
      absl::FunctionRef<absl::Status(AttachedJob&)> call) = 0;

  /// Upper bound of the training steps that run at the same time.
  virtual int max_steps() const = 0;

  /// Passes on the reports of epochs that jobs have ended together, before any
  /// of the jobs continues; sets EndedEpoch::status.
  virtual void Report(absl::Span<EndedEpoch> epochs) = 0;

  /// Called when jobs have ended an epoch. `pass_seconds` is the time that
  /// another pass over the data takes. Returns the job that is to train alone
  /// from now on; null = none.
  virtual AttachedJob* PickSlowest(double pass_seconds) = 0;

  /// Whether the only attached job may train alone: no other is expected.
  virtual bool MayLetGo() = 0;
  /// Lets the only attached job train alone, from its checkpoint, once it is
  /// detached. REQUIRES: MayLetGo.
  virtual void LetGo(AttachedJob& job) = 0;

  /// Reports the bytes that a pass shared by several jobs saved them to read.
  virtual void OnShared(int64_t bytes) = 0;

  /// Takes back a job with its result; the run does not use it any more.
  virtual void Detach(AttachedJob& job, absl::StatusOr<TrainReport> result) = 0;
};

/// Wakes a thread when something may have changed. Thread-safe.
class ChangeSignal {
 public:
  void Raise() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    is_raised_ = true;
    raised_.Signal();
  }
  /// Waits until it is raised, for `most` at most, and takes it down.
  void Await(absl::Duration most) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (!is_raised_) raised_.WaitWithTimeout(&mutex_, most);
    is_raised_ = false;
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar raised_;
  bool is_raised_ ABSL_GUARDED_BY(mutex_) = false;
};

/// Trains one or more jobs on the batches of one BatchSource: each pass is read
/// once for all jobs that need it. A job that fails, or is asked to stop, is
/// detached at the next batch, and the others continue. The losses of each job
/// are the losses that it has when it trains alone. Jobs whose next epochs
/// differ take turns, in an order in which they meet soon. Between two training
/// passes a job gets one validation and one test; only if nobody wants to train
/// it gets more. A job that answers requests (kRequests) does so in turns with
/// the epochs of others. While a job has no wish (Wish::Kind::kNothing), the
/// others wait for it between two epochs. A run that follows another machine's
/// (JobHost::follows) makes the same passes for the same jobs in the same
/// order. Single-owner: belongs to one thread, which need not be a job's.
class TrainRun {
 public:
  struct Dependencies {
    BatchSource& source;
    MemoryLedger& memory;
    const Clock& clock;
    JobHost& host;
  };

  /// All objects in `dependencies` outlive this.
  explicit TrainRun(const Dependencies& dependencies)
      : source_(dependencies.source),
        ledger_(dependencies.memory),
        clock_(dependencies.clock),
        host_(dependencies.host),
        models_(dependencies.memory, dependencies.host.max_steps()),
        change_(std::make_shared<ChangeSignal>()) {}
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;

  /// Runs until no job is left. An error of the data path, or CANCELLED when
  /// the source's stop was requested, is also the result of all jobs that were
  /// attached; on CANCELLED they have written checkpoints. After another error
  /// the state of the strategy is unknown. The jobs' reports are complete but
  /// for the process's memory. Call once.
  absl::Status Run();

 private:
  using AttachedJobs = std::vector<AttachedJob*>;

  absl::Status RunAll();
  absl::Status FollowAll();
  absl::Status TakeTurn(const JobHost::Turn& turn);
  absl::Status StartOnce(AttachedJobs& jobs);
  absl::Status Start(AttachedJobs& jobs);
  absl::Status StartWith(AttachedJob& first);
  uint64_t ModelBytes(const Member& member,
                      const sample::BatchShape& shape) const;
  absl::Status BeginJobs(const AttachedJobs& jobs);
  void LogBegin(AttachedJob& job);
  void AskAll();
  AttachedJobs JobsWith(Wish::Kind kind) const;
  AttachedJobs JobsThatMay(Wish::Kind evaluate) const;
  std::optional<int64_t> NextEpoch() const;
  absl::Status Tidy();
  absl::Status EndEpochs();
  absl::Status Evaluate(Wish::Kind kind, const AttachedJobs& jobs);
  void Report();
  void FinishDone();
  void DetachSlowest();
  void LeaveSlowStrategy();
  TrainReport Complete(const AttachedJob& job, TrainReport report) const;
  absl::Status Train(int64_t epoch, const AttachedJobs& jobs);
  absl::StatusOr<bool> AnswerRequests();
  absl::Status RunPass(strategy::Pass pass, const AttachedJobs& jobs,
                       strategy::PassReport& report);
  absl::Status Deliver(strategy::Pass pass, strategy::PassReport& report);
  absl::Status DetachStopped();
  void LetLeave();
  strategy::PassReport PassSoFar() const;
  void NameSink(strategy::PassReport& report) const;
  void ForAll(const AttachedJobs& jobs,
              absl::FunctionRef<absl::Status(AttachedJob&)> call);
  void Detach(AttachedJob& job, absl::StatusOr<TrainReport> result);

  BatchSource& source_;
  MemoryLedger& ledger_;
  const Clock& clock_;
  JobHost& host_;
  ModelMemory models_;
  // Whether the strategy was taken.
  bool started_ = false;
  // All jobs that share this run; of these, the jobs that get the current
  // pass's batches.
  AttachedJobs attached_;
  AttachedJobs in_pass_;
  // Whether the current pass is for feeds alone.
  bool is_for_clients_ = false;
  // Whether the current pass, with `in_pass_`, runs.
  bool is_running_ = false;
  // Whether requests were answered since the last training pass.
  bool has_answered_ = false;
  // Seconds that the data path alone took in the training pass that has just
  // ended.
  std::optional<double> pass_seconds_;
  // Tells the run that a member's wish may have changed.
  std::shared_ptr<ChangeSignal> change_;
};

/// The epoch with which jobs continue that have each reached one of `epochs`,
/// of `num_epochs` epochs that repeat: the first epoch after the longest gap,
/// so that jobs that are behind meet the others after the fewest passes.
/// REQUIRES: at least one epoch, each from 0 to num_epochs - 1.
int64_t FirstAfterLongestGap(const std::set<int64_t>& epochs,
                             int64_t num_epochs);

/// Trains one job on `source` (TrainRun), all on the caller's thread. CANCELLED
/// when the job or the source was asked to stop: the member has then written
/// what it needs to go on.
absl::StatusOr<TrainReport> TrainAlone(const JobEnvironment& environment,
                                       BatchSource& source, AttachedJob job);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_TRAIN_RUN_H_
