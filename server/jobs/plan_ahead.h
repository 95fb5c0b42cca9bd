#ifndef HEARTH_SERVER_JOBS_PLAN_AHEAD_H_
#define HEARTH_SERVER_JOBS_PLAN_AHEAD_H_

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/report.pb.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// Makes the plan of the train job that begins next, on a thread of its own,
/// while other jobs train; the job finds the plan then. An optimization only:
/// if memory or space is lacking, the job makes its plan itself. Thread-safe.
class PlanAhead {
 public:
  /// A queued train job that needs a plan.
  struct Job {
    std::string id;
    std::string log_name;
    /// Equal for jobs that need the same plan.
    std::string data;
  };

  /// Finds or makes the plan of a train job; CANCELLED when `stop` is
  /// requested.
  using Prepare = std::function<absl::StatusOr<v1::PrepareReport>(
      const v1::Job& job, std::stop_token stop)>;

  /// `store` outlives this.
  PlanAhead(JobStore& store, Prepare prepare);
  /// Stops the thread and waits for it.
  ~PlanAhead();

  /// Sets the job that begins next while others train; nullopt: no such job
  /// needs a plan. A job whose data equal the data of the last call is ignored.
  /// A plan that is being made is completed first.
  void SetNext(const std::optional<Job>& next) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Stops making the plan of a job that will not begin.
  void Forget(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Stops for good, without waiting.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes a plan and tells the job's log of it.
  absl::Status Make(const Job& job, std::stop_token stop) const;

  JobStore& store_;
  const Prepare prepare_;
  absl::Mutex mutex_;
  // Signalled when next_ or stopping_ changes.
  absl::CondVar changed_;
  std::optional<Job> next_ ABSL_GUARDED_BY(mutex_);
  // The job whose plan is being made, and what stops that.
  std::string current_ ABSL_GUARDED_BY(mutex_);
  std::stop_source stop_current_ ABSL_GUARDED_BY(mutex_);
  // Job::data of the last job whose plan was made.
  std::string last_data_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_PLAN_AHEAD_H_
