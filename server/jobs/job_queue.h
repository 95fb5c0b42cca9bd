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

namespace hearth::server {

/// The place where a job runs. Each lane has threads of its own, so that what
/// is short does not wait behind what trains for hours.
enum class Lane {
  /// Training, the evaluation of what was trained, and the preparation of plans
  /// for it.
  kTraining,
  /// All else: imports, exports, forecasts, verifications.
  kShort,
};
inline constexpr int kNumLanes = 2;

Lane LaneOf(const v1::JobSpec& spec);

/// How often and how long a job is tried again that could not go on.
struct WaitOptions {
  /// The pause after a first try, in seconds; doubles with each further one.
  double first_pause_seconds = 1;
  double longest_pause_seconds = 60;
  /// One that has waited that long for a disk, without progress in between, is
  /// given up. Memory and space for plans come back when other jobs end, so
  /// there is no limit.
  double limit_seconds = 24 * 3600;
};

/// A job that is to run, now or later.
struct QueuedJob {
  std::string id;
  /// As in v1::Job.
  std::string trace_id = {};
  /// Jobs of one priority run in the order of their numbers.
  int64_t number = 0;
  int priority = 0;
  Lane lane = Lane::kTraining;
  /// Whether it reserves memory, and so can be in the way of one that waits
  /// for memory.
  bool takes_memory = true;
  /// Whether it is of a sweep, and has not begun.
  bool begins_trial = false;
  /// Whether it trains by a plan, and has not begun.
  bool makes_plan = false;

  /// Facts for sharing passes with others (engine/job/run/shared_pass.h); a job
  /// without a group shares with none.
  job::SharedPassCandidate sharing = {};
  /// When it came into the queue, untried, on the steady clock.
  double queued_since = 0;

  /// Cause of the wait; kNone while it has not been tried.
  WaitCause cause = WaitCause::kNone;
  /// The memory, or the space for its plan, that it needs, where it waits for
  /// that; 0 = unknown.
  uint64_t needed_bytes = 0;
  /// Since when, on the steady clock, and how often it has been tried.
  double waits_since = 0;
  int tries = 0;
  double retry_at = 0;
  /// Jobs behind it that took memory while it waited for memory, or that
  /// shared the passes of a running one while it lacked only a place.
  int overtaken = 0;

  /// The entry of a job that the store has, not tried yet.
  static QueuedJob Of(const v1::Job& job);

  /// Begin of the job's lines in the log: "train-7", and of a trace "train-7
  /// [TRACE]".
  std::string LogName() const;
};

/// The jobs that are to run, and which of them is next:
///
///   - by priority, the highest first, and within one by number;
///   - one that waits is passed over until it may be tried again: when memory,
///     or space for its plan, that it needs is there, or when its pause is
///     over;
///   - at most kMostOvertaking jobs that take memory overtake one that waits
///   for
///     memory of other jobs. From then on those behind it are held until it has
///     run, so that small jobs cannot keep a large one out for ever;
///   - a job may have to wait for a place, while those behind it that share the
///     passes of a running job need none: at most kMostOvertaking of them
///     overtake it.
///
/// Times are seconds on the steady clock. Thread-compatible.
class JobQueue {
 public:
  static constexpr int kMostOvertaking = 16;
  /// Far more than a group has room for; so that it costs little however many
  /// are queued.
  static constexpr size_t kMostCandidates = 1000;
  /// Jobs of running groups that FirstOfOthers passes over; as many as can
  /// share passes at a time.
  static constexpr int kMostPassedOver = 64;

  /// `memory_availability` tells whether memory could be reserved now,
  /// `plan_fits` whether a plan of so many bytes has room beside those in use.
  JobQueue(WaitOptions options,
           std::function<job::MemoryAvailability(uint64_t)> memory_availability,
           std::function<bool(uint64_t)> plan_fits);

  /// One of the same id is replaced.
  void Add(QueuedJob job);

  /// Whether a job that was taken, and could not go on for lack of what `cause`
  /// names, has not waited for that for too long already.
  bool MayWait(const QueuedJob& job, WaitCause cause, double now) const;

  /// Adds such a job.
  void AddWaiting(QueuedJob job, WaitCause cause, uint64_t needed_bytes,
                  double now);

  /// The places in which jobs could start now.
  struct Places {
    /// Whether there is one for any job. Where there is none, only jobs can
    /// start that share the passes of running ones.
    bool is_free = false;
    /// Whether a job shares the passes of running ones. The answer is the same
    /// for jobs of one group with equal epoch and join, but for those that are
    /// expected.
    absl::FunctionRef<bool(const job::SharedPassCandidate&)> shares;
    /// Sharing keys of the groups that jobs run in.
    const std::set<std::string>& running_groups;
    /// Ids of jobs that these groups wait for.
    const std::set<std::string>& expected;
  };

  /// Takes the next job of `lane` that may run, and for which there is a place;
  /// nullopt if there is none now. However many jobs are new, it looks at few.
  std::optional<QueuedJob> Take(Lane lane, double now, const Places& places);

  /// Puts back a job that was taken and has not been tried.
  void PutBack(QueuedJob job);

  /// The jobs of a lane that have not been tried and may share passes with
  /// those of a group, the next one first; at most kMostCandidates.
  std::vector<job::SharedPassCandidate> CandidatesOf(
      Lane lane, const std::string& sharing_key) const;

  /// The first job of a lane that has not been tried and is of none of
  /// `running_groups`; null if there is none, or kMostPassedOver jobs of these
  /// are before it.
  const QueuedJob* FirstOfOthers(
      Lane lane, const std::set<std::string>& running_groups) const;

  /// Takes out the jobs that are of sweeps and have not begun.
  std::vector<QueuedJob> TakeBeginningTrials();

  bool Contains(const std::string& id) const { return keys_.contains(id); }
  void Remove(const std::string& id);

  /// Ends the pauses of all that wait for `cause`: some of it is there.
  void RetryNow(WaitCause cause);

  /// Since when the job has been here that has been here longest; nullopt =
  /// there is none.
  std::optional<double> OldestSince() const;

  /// When the next pause in `lane` ends, after `now`; infinity = none.
  double NextRetry(Lane lane, double now) const;

 private:
  // Minus the priority, then the number.
  using Key = std::pair<int, int64_t>;
  using Jobs = std::map<Key, QueuedJob>;
  using Place = std::pair<Jobs*, Key>;
  // Epoch and join of a SharedPassCandidate.
  using Start = std::pair<std::optional<int64_t>, bool>;
  // Jobs of a group.
  using ByStart = std::map<Start, std::map<Key, const QueuedJob*>>;

  // The jobs of a lane that have not been tried, and indexes of them.
  struct NewJobs {
    Jobs jobs;
    // Jobs that take no memory.
    std::set<Key> without_memory;
    // Jobs that have been overtaken kMostOvertaking times.
    std::set<Key> overtaken;
    // Jobs that can share passes, by group.
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
  // Takes out a job that is here.
  QueuedJob Extract(const Place& place);
  double Pause(int tries) const;
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
  std::array<NewJobs, kNumLanes> new_;
  Jobs waiting_;
  std::unordered_map<std::string, Place> keys_;
  // Since when each of the jobs in `new_` is here.
  std::multiset<double> since_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_JOB_QUEUE_H_
