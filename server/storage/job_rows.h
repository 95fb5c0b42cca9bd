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
#include "server/storage/sqlite.h"

namespace hearth::server {

/// A new state, with the error or the report that belongs to it.
struct StateUpdate {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  /// The error of a job that FAILED.
  std::optional<v1::JobError> error = std::nullopt;
  /// The report of a job that SUCCEEDED.
  std::optional<v1::JobReport> report = std::nullopt;
  /// The thing that a WAITING job waits for.
  std::string waiting_reason = {};
};

/// The trial of a sweep that a job trains.
struct TrialOf {
  /// The sweep's number.
  int64_t sweep = 0;
  uint32_t trial = 0;
  uint32_t replica = 0;
};

/// Where a job comes from.
struct JobOrigin {
  /// As in v1::Job; empty = nobody was asked, and there was none.
  std::string owner = {};
  std::string trace_id = {};
};

/// A job's row, as far as its events need it.
struct JobProgress {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  uint64_t last_sequence = 0;
};

/// A job that is PREPARING or RUNNING.
struct ActiveJob {
  std::string id;
  bool cancel_requested = false;
  /// Times in a row that the daemon died with it, this time not counted.
  int interruptions = 0;
};

/// A job's row, as far as the copy in the job's folder needs it.
struct StoredJob {
  std::string id;
  /// When the job ended, or was created if it has not.
  absl::Time changed;
};

/// The job store's tables, row by row; the caller makes the transactions:
///
///   jobs    a row per job; its number never comes back, and kind and number
///           make the id ("train-7")
///   events  the events of each job, numbered from 1 within the job: all state
///           changes and epochs, and of the others those among the job's last
///           `events_kept` (up to a tenth more)
///
/// schema.h makes them. Messages are stored serialized. One more table is in
/// memory alone, and rolled back with the others:
///
///   job_uses  the names that the jobs which have not ended use
///
/// Thread-compatible.
class JobRows {
 public:
  /// Both must outlive this. REQUIRES: the tables are there.
  JobRows(Database& database, const Clock& clock, int64_t events_kept)
      : database_(database), clock_(clock), events_kept_(events_kept) {}

  /// Adds a QUEUED job, without an event, and returns its id.
  absl::StatusOr<std::string> Insert(
      const std::string& request_id, const v1::JobSpec& spec, int priority,
      const std::optional<TrialOf>& trial = std::nullopt,
      const JobOrigin& origin = {});

  /// Begins the index that FindUser asks, with the jobs that have not ended.
  /// REQUIRES: called before Insert and Requeue, outside of transactions.
  absl::Status IndexUses();

  /// The id of the first job that has not ended and uses `name` (see
  /// job_uses.h); empty if none does.
  absl::StatusOr<std::string> FindUser(const std::string& name);

  /// Number of jobs of `owner` that have not ended.
  absl::StatusOr<int64_t> CountUnendedOf(const std::string& owner);

  /// Adds a job that was there before: with its id, state, times, results and
  /// last sequence number, without an event. Its request id is dropped if
  /// another job has it. REQUIRES: CheckFree(job) is OK.
  absl::Status InsertAgain(const v1::Job& job, const std::string& request_id);

  /// OK if `job` can be added by InsertAgain; DATA_LOSS if its id does not fit
  /// its spec, ALREADY_EXISTS if its number is taken.
  absl::Status CheckFree(const v1::Job& job);

  /// Numbers of new jobs are greater than `up_to`.
  absl::Status ReserveNumbers(int64_t up_to);

  /// Adds an event; its sequence number and time are set here. REQUIRES: the
  /// job is there.
  absl::Status AddEvent(const std::string& id, v1::JobEvent event);

  /// Adds the event of an epoch; false if there is one of it, or of a later
  /// one. REQUIRES: the job is there.
  absl::StatusOr<bool> AddEpoch(const std::string& id,
                                const v1::EpochReport& epoch);

  /// The number of the last epoch that has an event; 0 if none has. REQUIRES:
  /// the job is there.
  absl::StatusOr<uint32_t> LastEpoch(const std::string& id);
  /// Leaves out the next `count` sequence numbers of the job's events.
  /// REQUIRES: the job is there.
  absl::Status SkipSequences(const std::string& id, uint64_t count);

  /// Moves a job on and adds the event that says so. FAILED_PRECONDITION for a
  /// step that MayFollow does not allow; NOT_FOUND.
  absl::Status Move(const std::string& id, const StateUpdate& update);

  /// Replaces a job's spec by one that uses the same names. REQUIRES: the job
  /// is there.
  absl::Status SetSpec(const std::string& id, const v1::JobSpec& spec);

  /// Moves a job to QUEUED with another spec and remembers the request, if it
  /// has an id. Errors as Move.
  absl::Status Requeue(const v1::ResumeJobRequest& request,
                       const v1::JobSpec& spec);

  /// The request of this id that Requeue was called with; nullopt if there is
  /// none.
  absl::StatusOr<std::optional<v1::ResumeJobRequest>> FindResume(
      const std::string& request_id);

  /// REQUIRES: the job is there.
  absl::Status SetCancelRequested(const std::string& id);
  absl::Status SetHeld(const std::string& id, bool held);
  absl::Status SetInterruptions(const std::string& id, int interruptions);
  absl::Status Delete(const std::string& id);

  /// NOT_FOUND for an unknown id, as in Read.
  absl::StatusOr<JobProgress> ReadProgress(const std::string& id);
  absl::StatusOr<v1::Job> Read(const std::string& id);
  absl::StatusOr<std::string> ReadOwner(const std::string& id);

  /// The id of the submission; empty if there was none. REQUIRES: the job is
  /// there.
  absl::StatusOr<std::string> ReadRequestId(const std::string& id);

  /// All jobs.
  absl::StatusOr<std::vector<StoredJob>> ReadAll();

  /// Moves all rows of jobs that cannot be read to the table of damaged rows,
  /// dropping their events, and tells why, row by row.
  absl::StatusOr<std::vector<std::string>> SetAsideDamaged();

  /// Number of rows in the table of damaged rows.
  absl::StatusOr<int64_t> CountDamaged();

  /// The job with that request_id; nullopt if there is none.
  absl::StatusOr<std::optional<v1::Job>> FindRequest(
      const std::string& request_id);

  /// Up to `limit` jobs numbered below `below`, newest first, in one of
  /// `states` (empty = any), as far as they fit `max_bytes` (but at least one).
  absl::StatusOr<std::vector<v1::Job>> ReadBelow(
      int64_t below, const std::vector<v1::JobState>& states, int limit,
      size_t max_bytes);

  /// Up to `limit` events from sequence number `from` on; for one that cannot
  /// be read, a line of the log that says so. REQUIRES: the job is there.
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(const std::string& id,
                                                       uint64_t from,
                                                       int limit);

  /// The newest `count` events that are not progress, in order. REQUIRES: the
  /// job is there.
  absl::StatusOr<std::vector<v1::JobEvent>> ReadTail(const std::string& id,
                                                     int count);

  /// All jobs that have not ended, in order of submission; without epochs.
  absl::StatusOr<std::vector<v1::Job>> ReadUnended();

  /// In order of submission.
  absl::StatusOr<std::vector<ActiveJob>> ReadActive();

  /// Jobs that are QUEUED or WAITING and shall be cancelled.
  absl::StatusOr<std::vector<std::string>> ReadToBeCancelled();

  /// The jobs of a sweep, in the order of trials and replicas; without epochs.
  absl::StatusOr<std::vector<v1::Job>> ReadSweep(int64_t sweep);

  /// Number of jobs in each state that has had any; counts no rows.
  absl::StatusOr<std::map<v1::JobState, int64_t>> CountByState();

 private:
  // The numbers of jobs below a number, in one state or in any, the greatest
  // first.
  absl::StatusOr<std::vector<int64_t>> NumbersBelow(
      int64_t below, std::optional<v1::JobState> state, int limit);
  // The job without the epochs of its report.
  absl::StatusOr<v1::Job> ReadBareJob(const Statement& row);
  absl::StatusOr<v1::Job> ReadJob(const Statement& row);
  absl::Status CheckRow(const Statement& row);
  absl::Status AddUses(int64_t number, const v1::JobSpec& spec);
  absl::Status SetAside(int64_t number, const std::string& reason);
  absl::Status ReadEpochs(int64_t number, v1::TrainReport& report);
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
