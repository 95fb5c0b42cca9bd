#ifndef HEARTH_SERVER_JOBS_SCHEDULER_H_
#define HEARTH_SERVER_JOBS_SCHEDULER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/shared_pass.h"
#include "engine/plan/plan_store.h"
#include "hearth/v1/jobs.pb.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/plan_ahead.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// The taker of a running job's events: keeps them and passes them on. Called
/// from one thread at a time.
class JobEvents {
 public:
  virtual ~JobEvents() = default;

  /// PREPARING is over. Must come before the job succeeds.
  virtual void OnRunning() = 0;

  /// Something happened; sequence number and time are set by the taker.
  virtual void Append(const v1::JobEvent& event) = 0;

  /// The job's spec has this first_epoch_key from now on, durably.
  virtual absl::Status OnFirstEpochKey(uint32_t key) = 0;

  /// An epoch is over. OK once its report is durable; nothing happens if it was
  /// before.
  virtual absl::Status OnEpoch(const v1::EpochReport& epoch) = 0;

  /// Work is durable from which another run of the job goes on.
  virtual void OnDurable() = 0;
};

/// Does the work of one job of any kind.
class JobRunner {
 public:
  virtual ~JobRunner() = default;

  /// Blocks until the job has ended. When `stop` is requested, returns
  /// CANCELLED soon, in a state from which another Run of the same job goes
  /// on. Called from several threads at a time, for different jobs; may throw.
  virtual absl::StatusOr<v1::JobReport> Run(const v1::Job& job,
                                            JobEvents& events,
                                            std::stop_token stop) = 0;

  /// Removes what runs of the job have left only for another run of it. Called
  /// before the store knows that a job which has run FAILED or is CANCELLED, or
  /// right after for one that did not run; no run of it begins meanwhile.
  virtual void Discard(const std::string& /*id*/) {}

  /// Finds or makes the plan of a train job that is queued, while others run.
  /// CANCELLED when `stop` is requested. May throw.
  virtual absl::StatusOr<v1::PrepareReport> PrepareAhead(
      const v1::Job& /*job*/, std::stop_token /*stop*/) {
    return v1::PrepareReport();
  }
};

/// Decision about a job after an epoch.
enum class EpochDecision {
  kGoOn,
  /// It stops at once and is QUEUED, held back.
  kHold,
  /// It stops at once and is CANCELLED.
  kCancel,
};

/// The report of an epoch that a job has finished.
struct EpochOfJob {
  v1::Job job;
  v1::EpochReport report;
  /// Requested once the job is to stop: nothing is to be waited for then.
  std::stop_token stop;
  /// The answer: what is to become of the job, or why it cannot go on.
  absl::StatusOr<EpochDecision> decision = EpochDecision::kGoOn;
};

/// Decides about jobs that are trials of sweeps. Thread-safe; called without
/// locks.
class TrialObserver {
 public:
  virtual ~TrialObserver() = default;

  /// Jobs of sweeps have finished an epoch together; stores their reports, as
  /// JobEvents::OnEpoch, with all that follows from them, and sets the
  /// verdicts. The ids of jobs that begin because of that.
  virtual std::vector<std::string> OnEpochs(
      absl::Span<EpochOfJob* const> epochs) = 0;

  /// A job, of a sweep or not, may have ended, or was asked to stop.
  virtual void OnEnded(const std::string& id) = 0;
};

struct SchedulerOptions {
  /// Jobs that run at a time in each lane, each on a thread of its own.
  int max_running_jobs = 1;
  int max_short_jobs = 2;
  /// Through which train jobs share passes; those that do count as one running
  /// job. Null = none do. Outlives the scheduler.
  job::SharedPassGroups* shared_passes = nullptr;
  /// Whether the plan of the train job that begins next is made while others
  /// train.
  bool prepares_ahead = true;
  WaitOptions wait = {};
  /// How long to wait before a job's state is written again after a failure (a
  /// full disk, say).
  absl::Duration retry_interval = absl::Seconds(1);
};

/// Runs queued jobs, in the order and in the lanes of job_queue.h, and moves
/// them through their states (see job_state.h) in the store. A job that lacks
/// what may come back (see wait_cause.h) is WAITING, and runs again when it is
/// there. A job that throws or runs out of memory FAILS; the daemon goes on.
/// Thread-safe.
class Scheduler {
 public:
  /// All but the options must outlive the scheduler.
  Scheduler(JobStore& store, JobRunner& runner, job::MemoryLedger& memory,
            plan::PlanStore& plans, const Clock& clock,
            SchedulerOptions options);
  /// Stops and waits for the running jobs, however long they take.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Sets who decides about trials, from then on; null = nobody.
  void SetTrialObserver(TrialObserver* observer) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Queues those of the store's unended jobs that are not held. Call once,
  /// after JobStore::RecoverInterrupted and before any Enqueue.
  void Load(const std::vector<v1::Job>& unended) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Begins to run jobs. Call once.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Queues a job that the store has as QUEUED or WAITING.
  void Enqueue(const v1::Job& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes a job out of the queue; a running one is asked to stop, and is
  /// QUEUED then. The store has it as held.
  void Hold(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Queues jobs that were held or are new, those that the store has as QUEUED
  /// or WAITING and not held, before it runs any of them. Waits until they have
  /// stopped. Ids that the store does not know are passed over.
  absl::Status Release(absl::Span<const std::string> ids)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// While it drains, jobs of sweeps that have not begun are set aside: what a
  /// sweep begins would keep the daemon from running empty.
  void SetDraining(bool draining) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsSetAside(const std::string& id) const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Tries jobs that wait for `cause` again at once: some of it is there.
  void RetryNow(WaitCause cause) ABSL_LOCKS_EXCLUDED(mutex_);

  /// A job that is queued, waits or is held is CANCELLED at once; a running one
  /// is asked to stop; for one that has ended nothing happens. NOT_FOUND for an
  /// unknown id.
  absl::Status Cancel(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// As JobEvents::OnEpoch for each of the running jobs `jobs[i].id()`, which
  /// have ended their epochs together; only the ids of jobs are read. A job
  /// that is to stop is asked to.
  void Report(absl::Span<EpochOfJob> jobs) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives a running job that shares its place with others one of its own, if
  /// one is free. It shares with none from then on.
  bool GivePlace(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// The longest time, in seconds, that a job has been in the queue, be it new
  /// or WAITING; 0 = the queue is empty. A start of the daemon, and a run of
  /// the job, begin it anew.
  double LongestQueueSeconds() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Starts no more jobs, asks the running ones to stop at a checkpoint, and
  /// waits until they are QUEUED again (or CANCELLED, where that was asked
  /// for). DEADLINE_EXCEEDED naming those that have not stopped in time. May be
  /// called again.
  absl::Status Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Run {
    std::stop_source stop;
    bool cancelled_by_user = false;
    bool held = false;
    // retries_ when it began.
    int64_t retries = 0;
    Lane lane = Lane::kTraining;
    // Its place: jobs that share passes have the same one.
    const void* place = nullptr;
    std::string sharing_key;
    // As the store has it; the id alone until it is read.
    v1::Job job;
  };

  // The threads of a lane. Of those that are idle the first one takes the next
  // job: the caches of its libraries are warm.
  struct Workers {
    size_t most = 0;
    std::vector<std::jthread> threads;
    std::set<size_t> idle;
  };

  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnMemoryReleased() ABSL_LOCKS_EXCLUDED(mutex_);
  void Work(Lane lane, size_t worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks for the next job of the lane; nullopt: the scheduler stops.
  std::optional<QueuedJob> TakeNext(Lane lane, size_t worker)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes a job from the queue and enters it into `running_`.
  std::optional<QueuedJob> TakeOne(Lane lane, double now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues a job that the store has as QUEUED or WAITING, or sets it aside.
  void Add(QueuedJob job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a job waits to be run.
  bool IsQueued(const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a job out of the queue for good.
  void Remove(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there is a thread and a place for a job that comes in now.
  bool MayRun(const QueuedJob& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a job needs no place of its own.
  bool Shares(const job::SharedPassCandidate& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The groups that jobs run in.
  std::set<std::string> RunningGroups() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ExpectCandidates(const std::string& sharing_key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job leaves the queue without running: no group waits for it any more,
  // and its plan is not made ahead.
  void Forget(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasFreePlace() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the plan made of the job that gets the next place. Called when the
  // queue, or what runs, has changed.
  void LookAhead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddWorker(Lane lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs a job and writes its next state. The error for lack of which it is
  // WAITING now; OK for all others.
  absl::Status RunJob(QueuedJob& job) ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks a running job to stop, as its sweep says.
  void StopAfterEpoch(const std::string& id, EpochDecision decision)
      ABSL_LOCKS_EXCLUDED(mutex_);
  TrialObserver* trial_observer() ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the job is CANCELLED at once.
  absl::StatusOr<bool> CancelQuietly(const std::string& id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::stop_token StopTokenOf(const std::string& id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Puts a job that waits back into the queue; false if somebody has cancelled
  // it meanwhile.
  bool Requeue(const QueuedJob& job, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Execute(const v1::Job& job, JobEvents& events,
                       std::stop_token stop, v1::JobReport& report);
  StateUpdate Conclude(const QueuedJob& job, const absl::Status& status,
                       const v1::JobReport& report) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Persist(const QueuedJob& job, const StateUpdate& update)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status NotStopped(absl::Duration patience) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  JobStore& store_;
  JobRunner& runner_;
  job::MemoryLedger& memory_;
  plan::PlanStore& plans_;
  const Clock& clock_;
  const SchedulerOptions options_;
  mutable absl::Mutex mutex_;
  // Signalled when a job is queued or has ended, when memory or a plan was
  // given back, and when the scheduler stops.
  absl::CondVar changed_;
  JobQueue queue_ ABSL_GUARDED_BY(mutex_);
  // Jobs in the queue that groups may wait for.
  std::set<std::string> expected_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  // Queued, but not to begin while it drains.
  std::map<std::string, QueuedJob> set_aside_ ABSL_GUARDED_BY(mutex_);
  // Calls of RetryNow: one may come before the job that it is for waits.
  int64_t retries_ ABSL_GUARDED_BY(mutex_) = 0;
  // Jobs that a worker has taken and not yet moved to their next state.
  std::map<std::string, Run> running_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  TrialObserver* trial_observer_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::array<Workers, kNumLanes> workers_ ABSL_GUARDED_BY(mutex_);
  // Null = no plan is made ahead. Thread-safe.
  std::unique_ptr<PlanAhead> ahead_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_SCHEDULER_H_
