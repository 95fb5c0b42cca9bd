#ifndef HEARTH_SERVER_STORAGE_JOB_ROWS_H_
#define HEARTH_SERVER_STORAGE_JOB_ROWS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "hearth/v1/jobs.pb.h"
#include "server/storage/job_state.h"
#include "server/storage/sqlite.h"

namespace hearth::server {

/// Trial of a sweep that a job trains.
struct TrialOf {
  /// Number of the sweep.
  int64_t sweep = 0;
  uint32_t trial = 0;
  uint32_t replica = 0;
};

/// Columns of a job's row that its events need.
struct JobProgress {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  uint64_t last_sequence = 0;
};

/// A job that is PREPARING or RUNNING.
struct ActiveJob {
  std::string id;
  bool cancel_requested = false;
  /// Times in a row that the daemon died while it ran, without the current one.
  int interruptions = 0;
};

/// Columns of a job's row that the check of its copy needs.
struct StoredJob {
  std::string id;
  /// Time when the job ended, or was created if it has not ended.
  absl::Time changed;
};

/// Tables of the job store, row by row; the caller makes the transactions:
///
///   jobs    a row per job; its number is never reused, and kind and number
///           make the id ("train-7")
///   events  events of each job, numbered from 1 within the job: all state
///           changes and epochs, and other events among the job's last
///           `events_kept` (up to a tenth more)
///
/// UpdateSchema makes them. Messages are stored serialized. One more table
/// exists in memory only, and is rolled back with the others:
///
///   job_uses  names of data that unended jobs use
///
/// Thread-compatible.
class JobRows {
 public:
  /// `database` and `clock` must outlive the object. REQUIRES: the tables
  /// exist.
  JobRows(Database& database, const Clock& clock, int64_t events_kept)
      : database_(database), clock_(clock), events_kept_(events_kept) {}

  /// Adds a QUEUED job, without an event, and returns its id.
  absl::StatusOr<std::string> Insert(
      const std::string& request_id, const v1::JobSpec& spec, int priority,
      const std::optional<TrialOf>& trial = std::nullopt,
      const JobOrigin& origin = {});

  /// Fills job_uses with the unended jobs. REQUIRES: called before Insert and
  /// Requeue, outside of transactions.
  absl::Status IndexUses();

  /// Id of the first unended job that uses `name` (see UsesOf); empty if none
  /// does.
  absl::StatusOr<std::string> FindUser(const std::string& name);

  /// Number of jobs of `owner` that have not ended.
  absl::StatusOr<int64_t> CountUnendedOf(const std::string& owner);

  /// Adds a job that existed before, with its id, state, times, results and
  /// last sequence number, without an event. Its request id is dropped if
  /// another job has it. REQUIRES: CheckFree(job) is OK.
  absl::Status InsertAgain(const v1::Job& job, const std::string& request_id);

  /// OK if InsertAgain can add `job`; DATA_LOSS if its id does not match its
  /// spec, ALREADY_EXISTS if its number is taken.
  absl::Status CheckFree(const v1::Job& job);

  /// Makes numbers of new jobs greater than `up_to`.
  absl::Status ReserveNumbers(int64_t up_to);

  /// Adds an event, and sets its sequence number and time. REQUIRES: the job
  /// exists.
  absl::Status AddEvent(const std::string& id, v1::JobEvent event);

  /// Adds the event of an epoch; false if the job has an event of this or a
  /// later epoch. REQUIRES: the job exists.
  absl::StatusOr<bool> AddEpoch(const std::string& id,
                                const v1::EpochReport& epoch);

  /// Greatest epoch that has an event; 0 if none has. REQUIRES: the job exists.
  absl::StatusOr<uint32_t> LastEpoch(const std::string& id);
  /// Skips the next `count` sequence numbers of the job's events. REQUIRES: the
  /// job exists.
  absl::Status SkipSequences(const std::string& id, uint64_t count);

  /// Moves a job to another state and adds the event that says so.
  /// FAILED_PRECONDITION for a step that MayFollow does not allow; NOT_FOUND.
  absl::Status Move(const std::string& id, const StateUpdate& update);

  /// Replaces a job's spec by one that uses the same names. REQUIRES: the job
  /// exists.
  absl::Status SetSpec(const std::string& id, const v1::JobSpec& spec);

  /// Moves a job to QUEUED with another spec and stores the request, if it has
  /// an id. Errors as Move.
  absl::Status Requeue(const v1::ResumeJobRequest& request,
                       const v1::JobSpec& spec);

  /// Request of this id that Requeue was called with; nullopt if there is none.
  absl::StatusOr<std::optional<v1::ResumeJobRequest>> FindResume(
      const std::string& request_id);

  /// REQUIRES, for all four: the job exists.
  absl::Status SetCancelRequested(const std::string& id);
  absl::Status SetHeld(const std::string& id, bool held);
  absl::Status SetInterruptions(const std::string& id, int interruptions);
  absl::Status Delete(const std::string& id);

  /// NOT_FOUND, for all three, for an unknown id.
  absl::StatusOr<JobProgress> ReadProgress(const std::string& id);
  absl::StatusOr<v1::Job> Read(const std::string& id);
  absl::StatusOr<std::string> ReadOwner(const std::string& id);

  /// Id of the submission; empty if it had none. REQUIRES: the job exists.
  absl::StatusOr<std::string> ReadRequestId(const std::string& id);

  /// All jobs.
  absl::StatusOr<std::vector<StoredJob>> ReadAll();

  /// Moves all rows of jobs that cannot be read to the table of damaged rows,
  /// drops their events, and returns the reason for each row.
  absl::StatusOr<std::vector<std::string>> SetAsideDamaged();

  /// Number of rows in the table of damaged rows.
  absl::StatusOr<int64_t> CountDamaged();

  /// Job that was submitted with `request_id`; nullopt if there is none.
  absl::StatusOr<std::optional<v1::Job>> FindRequest(
      const std::string& request_id);

  /// Up to `limit` jobs numbered below `below`, newest first, in one of
  /// `states` (empty = any), up to `max_bytes` in all (but at least one job).
  absl::StatusOr<std::vector<v1::Job>> ReadBelow(
      int64_t below, const std::vector<v1::JobState>& states, int limit,
      size_t max_bytes);

  /// Up to `limit` jobs in one of `states`, newest first, without epochs. Of
  /// sweeps' jobs, only the newest `kMostPassedOver` of each state are passed
  /// over if `outside_sweeps`: the cost does not grow with the number of jobs.
  absl::StatusOr<std::vector<v1::Job>> ReadNewest(
      const std::vector<v1::JobState>& states, int limit, bool outside_sweeps);
  static constexpr int kMostPassedOver = 1000;

  /// Up to `limit` events from sequence number `from` on; an event that cannot
  /// be read is replaced by a log line that says so. REQUIRES: the job exists.
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string& id,
                                                       uint64_t from,
                                                       int limit);

  /// Newest `count` events that are not progress, in order. REQUIRES: the job
  /// exists.
  absl::StatusOr<std::vector<v1::JobEvent>> ReadTail(const std::string& id,
                                                     int count);

  /// All unended jobs, in order of submission; without epochs.
  absl::StatusOr<std::vector<v1::Job>> ReadUnended();

  /// PREPARING and RUNNING jobs, in order of submission.
  absl::StatusOr<std::vector<ActiveJob>> ReadActive();

  /// Ids of QUEUED and WAITING jobs that are to be cancelled.
  absl::StatusOr<std::vector<std::string>> ReadToBeCancelled();

  /// Jobs of a sweep, ordered by trial and replica; without epochs.
  absl::StatusOr<std::vector<v1::Job>> ReadSweep(int64_t sweep);

  /// Number of jobs in each state that has ever had any; counts no rows.
  absl::StatusOr<std::map<v1::JobState, int64_t>> CountByState();

 private:
  // Numbers of jobs below `below`, in `state` or in any, the greatest first.
  absl::StatusOr<std::vector<int64_t>> NumbersBelow(
      int64_t below, std::optional<v1::JobState> state, int limit);
  // Job without the epochs of its report.
  absl::StatusOr<v1::Job> ReadBareJob(const Statement& row);
  absl::StatusOr<v1::Job> ReadJob(const Statement& row);
  absl::Status CheckRow(const Statement& row);
  absl::Status AddUses(int64_t number, const v1::JobSpec& spec);
  absl::Status SetAside(int64_t number, const std::string& reason);
  absl::Status ReadEpochs(
      int64_t number,
      google::protobuf::RepeatedPtrField<v1::EpochReport>& epochs);
  absl::Status PruneEvents(int64_t number, int64_t up_to);
  absl::Status UpdateState(const std::string& id, const StateUpdate& update);
  int64_t NowNanoseconds() const;

  template <typename Message>
  absl::Status Parse(const std::string& bytes, Message& message) const;

  Database& database_;
  const Clock& clock_;
  const int64_t events_kept_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_ROWS_H_
