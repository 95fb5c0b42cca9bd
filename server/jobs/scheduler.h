#ifndef HEARTH_SERVER_JOBS_SCHEDULER_H_
#define HEARTH_SERVER_JOBS_SCHEDULER_H_

#include <deque>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "hearth/v1/jobs.pb.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// The taker of a running job's events: keeps them and passes them on. Called
/// from the job's thread.
class JobEvents {
 public:
  virtual ~JobEvents() = default;

  /// PREPARING is over. Must come before the job succeeds.
  virtual void OnRunning() = 0;

  /// Something happened; sequence number and time are set by the taker.
  virtual void Append(const v1::JobEvent& event) = 0;

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
};

struct SchedulerOptions {
  /// Jobs that run at a time, each on a thread of its own.
  int max_running_jobs = 1;
  /// How long to wait before a job's state is written again after a failure (a
  /// full disk, say).
  absl::Duration retry_interval = absl::Seconds(1);
};

/// Runs queued jobs in order of submission, and moves them through their
/// states (see job_state.h) in the store. A job that throws or runs out of
/// memory FAILS; the daemon goes on. Thread-safe.
class Scheduler {
 public:
  /// All but the options must outlive the scheduler.
  Scheduler(JobStore& store, JobRunner& runner, const Clock& clock,
            SchedulerOptions options);
  /// Stops and waits for the running jobs, however long they take.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues the store's unended jobs. Call once, after
  /// JobStore::RecoverInterrupted and before any Enqueue.
  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Begins to run jobs. Call once.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Queues a job that the store has as QUEUED.
  void Enqueue(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// A queued job is CANCELLED at once; a running one is asked to stop; for one
  /// that has ended nothing happens. NOT_FOUND for an unknown id.
  absl::Status Cancel(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Starts no more jobs, asks the running ones to stop at a checkpoint, and
  /// waits until they are QUEUED again (or CANCELLED, where that was asked
  /// for). DEADLINE_EXCEEDED naming those that have not stopped in time. May be
  /// called again.
  absl::Status Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Run {
    std::stop_source stop;
    bool cancelled_by_user = false;
  };

  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunJob(const std::string& id, std::stop_token stop)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Execute(const std::string& id, JobEvents& events,
                       std::stop_token stop, v1::JobReport& report);
  StateUpdate Conclude(const std::string& id, const absl::Status& status,
                       const v1::JobReport& report) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Persist(const std::string& id, const StateUpdate& update)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status NotStopped(absl::Duration patience) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  JobStore& store_;
  JobRunner& runner_;
  const Clock& clock_;
  const SchedulerOptions options_;
  absl::Mutex mutex_;
  // Signalled when a job is queued or has ended, and when the scheduler stops.
  absl::CondVar changed_;
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mutex_);
  // Jobs that a worker has taken and not yet moved to their next state.
  std::map<std::string, Run> running_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> workers_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_SCHEDULER_H_
