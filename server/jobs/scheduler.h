#ifndef HEARTH_SERVER_JOBS_SCHEDULER_H_
#define HEARTH_SERVER_JOBS_SCHEDULER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "server/jobs/job_events.h"
#include "server/jobs/job_queue.h"

namespace hearth::server {

class JobStore;
class PlanAhead;
struct StateUpdate;

/// How many jobs run, and how.
struct SchedulerOptions {
  /// Number of jobs that run at a time in each lane, each on a thread of its
  /// own.
  int max_running_jobs = 1;
  int max_short_jobs = 2;
  /// Groups through which train jobs share passes; the jobs of a group count as
  /// one running job. Null = no job shares. Outlives the scheduler.
  job::SharedPassGroups* shared_passes = nullptr;
  /// Whether the client of a feed job with this id asks for something; null =
  /// no client ever does.
  std::function<bool(const std::string& id)> client_waits = nullptr;
  /// Whether the plan of the train job that begins next is made while others
  /// train.
  bool prepares_ahead = true;
  WaitOptions wait = {};
  /// Pause before a job's state is written again after a failure (a full disk,
  /// for example).
  absl::Duration retry_interval = absl::Seconds(1);
};

/// Runs queued jobs, in the order and in the lanes of job_queue.h, and moves
/// them through their states (job_state.h) in the store. A job that lacks
/// something that may come back (WaitCause) is WAITING, and runs again when it
/// is available. A job that throws or runs out of memory FAILS; the daemon
/// continues. Thread-safe.
class Scheduler {
 public:
  /// All arguments but the options outlive the scheduler.
  Scheduler(JobStore& store, JobRunner& runner, job::MemoryLedger& memory,
            plan::PlanStore& plans, const Clock& clock,
            SchedulerOptions options);
  /// Stops the running jobs and waits for them, however long they take.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Sets the observer that decides about trials from now on; null = none.
  void SetTrialObserver(TrialObserver* observer) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Queues the store's unended jobs that are not held. Call once, after
  /// JobStore::RecoverInterrupted and before any Enqueue.
  void Load(const std::vector<v1::Job>& unended) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Begins to run jobs. Call once.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Queues a job that is QUEUED or WAITING in the store.
  void Enqueue(const v1::Job& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Removes a job from the queue; a running job is asked to stop, and is then
  /// QUEUED. REQUIRES: the store has the job as held.
  void Hold(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Queues jobs that were held or are new, and are now QUEUED or WAITING and
  /// not held in the store, before it runs any of them. Waits until they have
  /// stopped. Unknown ids are ignored.
  absl::Status Release(absl::Span<const std::string> ids)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// While draining, jobs of sweeps that have not begun are set aside:
  /// otherwise sweeps would keep the daemon busy for ever.
  void SetDraining(bool draining) ABSL_LOCKS_EXCLUDED(mutex_);
  bool IsSetAside(const std::string& id) const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Tries jobs that wait for `cause` again at once: some of it is available.
  void RetryNow(WaitCause cause) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Looks at the queue again: what a WAITING job needs may have come.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Cancels a job. A job that is queued, waits or is held is CANCELLED at
  /// once; a running job is asked to stop; a job that has ended stays as it is.
  /// NOT_FOUND for an unknown id.
  absl::Status Cancel(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// JobEvents::OnEpoch for each of the running jobs `jobs[i].id()`, which have
  /// ended their epochs together; reads only the ids of the jobs. Asks jobs to
  /// stop as decided.
  void Report(absl::Span<EpochOfJob> jobs) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives a running job that shares its place with others a place of its own,
  /// if one is free. It shares with none from then on.
  bool GivePlace(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Longest time, in seconds, that a job has been in the queue, new or
  /// WAITING; 0 = the queue is empty. Counts from the job's last run and from
  /// the daemon's start.
  double LongestQueueSeconds() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Starts no more jobs, asks the running ones to stop at a checkpoint, and
  /// waits until they are QUEUED (or CANCELLED, if that was requested).
  /// DEADLINE_EXCEEDED naming the jobs that have not stopped in time. May be
  /// called again.
  absl::Status Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Run {
    std::stop_source stop;
    bool cancelled_by_user = false;
    bool held = false;
    // Value of retries_ when the run began.
    int64_t retries = 0;
    Lane lane = Lane::kTraining;
    // Place of the job; jobs that share passes have the same place.
    const void* place = nullptr;
    std::string sharing_key;
    // The job as in the store; only its id until it is read.
    v1::Job job;
  };

  // Threads of a lane. The first idle thread takes the next job: the caches of
  // its libraries are warm.
  struct Workers {
    size_t most = 0;
    std::vector<std::jthread> threads;
    std::set<size_t> idle;
  };

  void OnMemoryReleased() ABSL_LOCKS_EXCLUDED(mutex_);
  void Work(Lane lane, size_t worker) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until there is a next job of the lane; nullopt: the scheduler stops.
  std::optional<QueuedJob> TakeNext(Lane lane, size_t worker)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes a job from the queue and adds it to `running_`.
  std::optional<QueuedJob> TakeOne(Lane lane, double now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues a job that is QUEUED or WAITING in the store, or sets it aside.
  void Add(QueuedJob job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a job waits to be run.
  bool IsQueued(const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a job from the queue for good.
  void Remove(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a thread and a place are free for a new job.
  bool MayRun(const QueuedJob& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a job needs no place of its own.
  bool Shares(const job::SharedPassCandidate& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sharing keys of the running jobs.
  std::set<std::string> RunningGroups() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ExpectCandidates(const std::string& sharing_key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A job leaves the queue without running: no group expects it any more, and
  // its plan is not made ahead.
  void Forget(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasFreePlace() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the plan made of the job that gets the next place. Called when the
  // queue or the running jobs have changed.
  void LookAhead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddWorker(Lane lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs a job and writes its next state. Returns the error for which it is now
  // WAITING; OK otherwise.
  absl::Status RunJob(QueuedJob& job) ABSL_LOCKS_EXCLUDED(mutex_);
  // Asks a running job to stop, as its sweep has decided.
  void StopAfterEpoch(const std::string& id, EpochDecision decision)
      ABSL_LOCKS_EXCLUDED(mutex_);
  TrialObserver* trial_observer() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns whether the job is CANCELLED at once.
  absl::StatusOr<bool> CancelQuietly(const std::string& id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::stop_token StopTokenOf(const std::string& id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Puts a WAITING job back into the queue; false if it was cancelled
  // meanwhile.
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
  // Queued jobs that running groups expect.
  std::set<std::string> expected_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  // Queued jobs that do not begin while draining.
  std::map<std::string, QueuedJob> set_aside_ ABSL_GUARDED_BY(mutex_);
  // Number of calls of RetryNow: a call may come before the job waits that
  // needs it.
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
