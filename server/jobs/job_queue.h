#ifndef HEARTH_SERVER_JOBS_JOB_QUEUE_H_
#define HEARTH_SERVER_JOBS_JOB_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/base/status.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/shared_pass.h"
#include "hearth/v1/jobs.pb.h"

/// Queued jobs, and the rules by which the scheduler takes the next one. Knows
/// no threads and no clock: callers pass the time.

namespace hearth::server {

/// Lane in which a job runs. Each lane has threads of its own, so that short
/// jobs do not wait for jobs that train for hours.
enum class Lane {
  /// Training, evaluating what was trained, and preparing plans for training.
  kTraining,
  /// All other jobs: imports, exports, forecasts, verifications.
  kShort,
};
inline constexpr int kNumLanes = 2;

Lane LaneOf(const v1::JobSpec& spec);

/// How often a WAITING job is tried again, and for how long.
struct WaitOptions {
  /// Pause after the first try, in seconds; doubles with each further try.
  double first_pause_seconds = 1;
  double longest_pause_seconds = 60;
  /// The longest pause of a job that waits for other machines; up to half of it
  /// is added.
  double longest_peer_pause_seconds = 4;
  /// Seconds that a job may wait for a disk, without progress in between,
  /// before it fails. Waits for memory and for space for plans have no limit:
  /// both come back when other jobs end. Nor have waits for a feed's client.
  double limit_seconds = 24 * 3600;
};

/// A job that is to run, now or later.
struct QueuedJob {
  std::string id;
  /// See v1::Job.
  std::string trace_id = {};
  /// Jobs of equal priority run in the order of their numbers.
  int64_t number = 0;
  int priority = 0;
  Lane lane = Lane::kTraining;
  /// Whether the job reserves memory, and so may delay a job that waits for
  /// memory.
  bool takes_memory = true;
  /// Whether the job belongs to a sweep and has not begun.
  bool begins_trial = false;
  /// Whether the job trains with a plan and has not begun.
  bool makes_plan = false;

  /// How the job may share passes with others (engine/job/run/shared_pass.h); a
  /// job with an empty key shares with none.
  job::SharedPassCandidate sharing = {};
  /// Time, on the steady clock, at which the job was queued.
  double queued_since = 0;

  /// What the job waits for; kNone before it was tried.
  WaitCause cause = WaitCause::kNone;
  /// Bytes of memory, or of space for its plan, that the job waits for; 0 =
  /// unknown.
  uint64_t needed_bytes = 0;
  /// Start of the wait, on the steady clock, and number of tries.
  double waits_since = 0;
  int tries = 0;
  double retry_at = 0;
  /// Number of later jobs that took memory while this job waited for memory, or
  /// that shared the passes of a running job while this job lacked only a
  /// place.
  int overtaken = 0;

  /// Entry of a job of the store that has not been tried yet.
  static QueuedJob Of(const v1::Job& job);

  /// Prefix of the job's lines in the log: "train-7", or "train-7 [TRACE]" with
  /// a trace.
  std::string LogName() const;
};

/// The jobs that are to run, and which of them is next:
///
///   - Jobs run by priority, the highest first, and by number within a
///     priority.
///   - A WAITING job is passed over until it may be tried again: when the
///     memory or the space for its plan that it needs is available, when its
///     client asks for something, or when its pause is over.
///   - At most kMostOvertaking jobs that take memory overtake a job that waits
///     for memory of other jobs. Then later jobs that take memory are held
///     until it has run, so that small jobs cannot keep a large one out for
///     ever.
///   - Where a job waits for a place, later jobs that share the passes of a
///     running job need none: at most kMostOvertaking of them overtake it.
///
/// Times are seconds on the steady clock. Thread-compatible.
class JobQueue {
 public:
  static constexpr int kMostOvertaking = 16;
  /// Maximum number of candidates for a group; far more than a group can take,
  /// and few enough to be cheap however many jobs are queued.
  static constexpr size_t kMostCandidates = 1000;
  /// Maximum number of jobs of running groups that FirstOfOthers passes over:
  /// as many as can share passes at a time.
  static constexpr int kMostPassedOver = 64;

  /// `memory_availability` tells whether memory could be reserved now,
  /// `plan_fits` whether a plan of so many bytes fits beside the plans in use,
  /// `client_waits` whether the client of a feed job with this id asks for
  /// something.
  JobQueue(WaitOptions options,
           std::function<job::MemoryAvailability(uint64_t)> memory_availability,
           std::function<bool(uint64_t)> plan_fits,
           std::function<bool(const std::string&)> client_waits);

  /// Adds a job; replaces a job with the same id.
  void Add(QueuedJob job);

  /// Whether a job that was taken, and could not run because of `cause`, may
  /// wait: it has not waited for the same cause for too long.
  bool MayWait(const QueuedJob& job, WaitCause cause, double now) const;

  /// Adds a job that waits for `cause`.
  void AddWaiting(QueuedJob job, WaitCause cause, uint64_t needed_bytes,
                  double now);

  /// The places in which jobs could start now.
  struct Places {
    /// Whether a place is free for any job. Otherwise only jobs can start that
    /// share the passes of running jobs.
    bool is_free = false;
    /// Whether a job can share the passes of running jobs. The answer is the
    /// same for all jobs with equal key, epoch and join that are not expected.
    absl::FunctionRef<bool(const job::SharedPassCandidate&)> shares;
    /// Sharing keys of the running jobs (job::SharedPassCandidate::key).
    const std::set<std::string>& running_groups;
    /// Ids of jobs that the running groups expect.
    const std::set<std::string>& expected;
  };

  /// Takes the next job of `lane` that may run and for which there is a place;
  /// nullopt if there is none. Looks at few jobs, however many are new.
  std::optional<QueuedJob> Take(Lane lane, double now, const Places& places);

  /// Puts back a job that was taken and has not been tried.
  void PutBack(QueuedJob job);

  /// New jobs of a lane with this sharing key, in order; at most
  /// kMostCandidates.
  std::vector<job::SharedPassCandidate> CandidatesOf(
      Lane lane, const std::string& sharing_key) const;

  /// First new job of a lane whose sharing key is not in `running_groups`; null
  /// if there is none, or if kMostPassedOver jobs with these keys are before
  /// it.
  const QueuedJob* FirstOfOthers(
      Lane lane, const std::set<std::string>& running_groups) const;

  /// Removes and returns the jobs that belong to sweeps and have not begun.
  std::vector<QueuedJob> TakeBeginningTrials();

  bool Contains(const std::string& id) const { return keys_.contains(id); }
  void Remove(const std::string& id);

  /// Ends the pauses of all jobs that wait for `cause`: some of it is
  /// available.
  void RetryNow(WaitCause cause);

  /// Time at which the job was queued that has been here longest; nullopt if
  /// the queue is empty.
  std::optional<double> OldestSince() const;

  /// End of the first pause in `lane` that ends after `now`; infinity = none.
  double NextRetry(Lane lane, double now) const;

 private:
  // Negated priority, then number: the order of jobs.
  using Key = std::pair<int, int64_t>;
  using Jobs = std::map<Key, QueuedJob>;
  using Place = std::pair<Jobs*, Key>;
  // Epoch and join of a SharedPassCandidate.
  using Start = std::pair<std::optional<int64_t>, bool>;
  // Jobs with one sharing key.
  using ByStart = std::map<Start, std::map<Key, const QueuedJob*>>;

  // Jobs of a lane that have not been tried, with indexes.
  struct NewJobs {
    Jobs jobs;
    // Jobs that take no memory.
    std::set<Key> without_memory;
    // Jobs that have been overtaken kMostOvertaking times.
    std::set<Key> overtaken;
    // Jobs that can share passes, by sharing key.
    std::unordered_map<std::string, ByStart> by_sharing_key;
  };

  static Key KeyOf(const QueuedJob& job) { return {-job.priority, job.number}; }
  static Start StartOf(const QueuedJob& job) {
    return {job.sharing.epoch, job.sharing.join};
  }
  NewJobs& NewOf(Lane lane) { return new_[static_cast<size_t>(lane)]; }
  const NewJobs& NewOf(Lane lane) const {
    return new_[static_cast<size_t>(lane)];
  }
  void Overtake(Lane lane, const Key& key);
  // Removes and returns a job of the queue.
  QueuedJob Extract(const Place& place);
  double Pause(int tries) const;
  double PauseOf(const QueuedJob& job) const;
  bool MayBeTried(const QueuedJob& job, double now) const;
  Key HoldBehind() const;
  Jobs::iterator FindWaiting(Lane lane, double now, const Key& hold,
                             const Places& places, Key& place_hold);
  Jobs::iterator FindNew(Lane lane, const Key& hold, const Places& places,
                         Key& place_hold);
  Jobs::iterator FindSharing(NewJobs& of_lane, const Key& hold,
                             const Places& places);

  const WaitOptions options_;
  const std::function<job::MemoryAvailability(uint64_t)> memory_availability_;
  const std::function<bool(uint64_t)> plan_fits_;
  const std::function<bool(const std::string&)> client_waits_;
  std::array<NewJobs, kNumLanes> new_;
  Jobs waiting_;
  std::unordered_map<std::string, Place> keys_;
  // Queueing times of the jobs in `new_`.
  std::multiset<double> since_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_JOB_QUEUE_H_
