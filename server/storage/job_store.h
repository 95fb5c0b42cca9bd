#ifndef HEARTH_SERVER_STORAGE_JOB_STORE_H_
#define HEARTH_SERVER_STORAGE_JOB_STORE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "hearth/v1/jobs.pb.h"
#include "server/storage/job_state.h"

namespace hearth::server {

class Database;
class DiskReserve;
class JobFolders;
class JobRows;

/// Progress of a deletion.
enum class Deletion { kNew, kBegun, kDone };

/// Selects the jobs to list.
struct JobQuery {
  /// Only jobs in one of these states; empty = all.
  std::vector<v1::JobState> states;
  /// Jobs per page, 1 to kMaxPageSize.
  int page_size = kDefaultPageSize;
  /// From JobPage::next_page_token; empty = the first page.
  std::string page_token;

  static constexpr int kDefaultPageSize = 100;
  static constexpr int kMaxPageSize = 1000;
};

/// Jobs in one of `states`, at most `limit`; only jobs of no sweep if
/// `outside_sweeps`.
struct JobGroup {
  std::vector<v1::JobState> states;
  int limit = 0;
  bool outside_sweeps = false;
};

/// Page of jobs, newest first. It also ends at kMaxPageBytes, so that long
/// reports do not exceed the size of a message.
struct JobPage {
  std::vector<v1::Job> jobs;
  /// Empty = this was the last page.
  std::string next_page_token;

  static constexpr size_t kMaxPageBytes = 1 << 20;
};

/// Events of a job, in order.
struct EventBatch {
  std::vector<v1::JobEvent> events;
  /// Whether the job has ended, and `events` holds its last event or nothing.
  bool is_last = false;
};

struct JobStoreOptions {
  /// Events of a job that are kept, up to a tenth more; of older events only
  /// state changes and epochs are.
  int64_t events_kept = 10'000;
  /// Folders of jobs, which get a copy of each job; a lost database is made
  /// again from them (see job_recovery.h). Must outlive the store; null = no
  /// copies.
  JobFolders* folders = nullptr;
  /// Reserve that gives up space for state changes, which must be possible on a
  /// full disk. Must outlive the store; null = none.
  DiskReserve* reserve = nullptr;
  /// Limits for unended jobs, in all and of one owner; beyond them no job is
  /// added or resumed. Jobs of sweeps count, but are always added.
  int64_t max_unended = std::numeric_limits<int64_t>::max();
  int64_t max_unended_of_owner = std::numeric_limits<int64_t>::max();
  /// SQLite VFS through which the file is reached; empty = SQLite's default.
  std::string vfs = "";
};

/// Jobs that a change of the tables concerns.
struct ChangedJobs {
  /// Ids of new jobs.
  std::vector<std::string> added;
  /// Ids of jobs with new events.
  std::vector<std::string> told;
};

/// Jobs, their events and results, in a SQLite file. Acknowledged calls survive
/// kill -9 and power loss; progress events survive power loss only once
/// something else is stored. A job's row and the event about it change in one
/// transaction. Errors name the file. Thread-safe; calls block for the disk.
class JobStore {
 public:
  /// Gets the id of a job that has a new event, after the event is stored.
  /// Called on the thread that added it; must not call the store.
  using Listener = std::function<void(const std::string& id)>;

  /// Opens or creates the file, brings one of an older version to the current
  /// one (UpdateSchema), and sets damaged parts aside (see job_recovery.h).
  /// FAILED_PRECONDITION if a newer version wrote it. `clock` must outlive the
  /// store.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(
      io::FileSystem& files, const std::string& path, const Clock& clock,
      Listener listener, JobStoreOptions options = {});
  virtual ~JobStore() = default;

  /// Facts about the opening that an operator should know, one sentence each:
  /// damage that was found, jobs that were listed again.
  virtual const std::vector<std::string>& warnings() const = 0;

  /// Adds a QUEUED job. If `request_id` (empty = none) was used before, returns
  /// the earlier job if the specs are equal, else ALREADY_EXISTS.
  /// RESOURCE_EXHAUSTED, naming the limit, if there are too many jobs.
  /// Concurrent submissions of several threads are stored in one transaction.
  virtual absl::StatusOr<v1::Job> Submit(const std::string& request_id,
                                         const v1::JobSpec& spec, int priority,
                                         const JobOrigin& origin) = 0;
  /// Adds a job without an owner.
  absl::StatusOr<v1::Job> Submit(const std::string& request_id,
                                 const v1::JobSpec& spec, int priority = 0) {
    return Submit(request_id, spec, priority, JobOrigin());
  }

  /// OK if a job of `owner` could be added now; RESOURCE_EXHAUSTED as Submit.
  virtual absl::Status CheckRoom(const std::string& owner) = 0;

  /// Job that Submit would return without adding one; nullopt if it would add
  /// one.
  virtual absl::StatusOr<std::optional<v1::Job>> FindRequest(
      const std::string& request_id, const v1::JobSpec& spec) = 0;

  /// Job of this id. NOT_FOUND for an unknown id. The report of a train job has
  /// the epochs finished so far.
  virtual absl::StatusOr<v1::Job> Get(const std::string& id) = 0;

  /// Owner of a job; empty if it has none. NOT_FOUND for an unknown id.
  virtual absl::StatusOr<std::string> GetOwner(const std::string& id) = 0;

  /// Page of jobs. INVALID_ARGUMENT for a token that List has not returned, or
  /// a page size out of range.
  virtual absl::StatusOr<JobPage> List(const JobQuery& query) = 0;

  /// The newest jobs of each group at one moment, newest first, without epochs.
  /// Costs the same however many jobs there are; so jobs behind very many newer
  /// ones of sweeps are not found (see JobRows::ReadNewest).
  virtual absl::StatusOr<std::vector<v1::Job>> Newest(
      const std::vector<JobGroup>& groups) = 0;

  /// Up to `limit` events from sequence number `from` on. NOT_FOUND for an
  /// unknown id.
  virtual absl::StatusOr<EventBatch> ReadEvents(const std::string& id,
                                                uint64_t from, int limit) = 0;

  /// Queues a FAILED or CANCELLED job once more, with `spec`, as `request`
  /// asks. If its request_id was used before, changes nothing, and returns the
  /// job if the requests are equal, else ALREADY_EXISTS. FAILED_PRECONDITION
  /// for a job in another state.
  virtual absl::StatusOr<v1::Job> Resume(const v1::ResumeJobRequest& request,
                                         const v1::JobSpec& spec) = 0;

  /// Job that Resume would return for a request_id used before; nullopt for a
  /// new one.
  virtual absl::StatusOr<std::optional<v1::Job>> FindResume(
      const v1::ResumeJobRequest& request) = 0;
  /// Newest `count` events that are not progress, in order. NOT_FOUND for an
  /// unknown id.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> ReadTail(
      const std::string& id, int count) = 0;

  /// Adds an event, and sets its sequence number and time.
  virtual absl::Status Append(const std::string& id, v1::JobEvent event) = 0;

  /// Adds the event of an epoch, unless the job has one of this or a later
  /// epoch: a job that went on from a checkpoint may report some again.
  virtual absl::Status AppendEpoch(const std::string& id,
                                   const v1::EpochReport& epoch) = 0;

  /// Sets data.first_epoch_key in the spec of a train job.
  virtual absl::Status SetFirstEpochKey(const std::string& id,
                                        uint32_t key) = 0;

  /// Moves a job to another state and adds the event that says so.
  /// FAILED_PRECONDITION for a step that MayFollow does not allow.
  virtual absl::Status ChangeState(const std::string& id,
                                   const StateUpdate& update) = 0;

  /// Stores that an active job is to be cancelled, so that a restart does not
  /// run it again.
  virtual absl::Status RequestCancel(const std::string& id) = 0;

  /// Puts jobs that a killed daemon left PREPARING or RUNNING back to QUEUED;
  /// to CANCELLED if their cancellation was requested; to FAILED if the daemon
  /// died for the `retries`th time in a row. Cancels queued jobs whose
  /// cancellation was requested. Call once, before any job is run.
  virtual absl::Status RecoverInterrupted(int retries) = 0;

  /// Stores that work of the job is durable: earlier interruptions do not count
  /// as in a row with later ones.
  virtual absl::Status ForgetInterruptions(const std::string& id) = 0;

  /// Runs `change` on the tables in one transaction, which an error rolls back,
  /// so that other data is stored together with jobs. `change` may be called
  /// several times, and must not call the store. Callers include job_rows.h and
  /// sqlite.h.
  using Change =
      absl::FunctionRef<absl::Status(Database&, JobRows&, ChangedJobs&)>;
  virtual absl::Status Transact(Change change) = 0;

  /// All unended jobs, in order of submission; without epochs.
  virtual absl::StatusOr<std::vector<v1::Job>> Unended() = 0;

  /// Id of the first unended job that uses `name` (see UsesOf); empty if none
  /// does. It reads one row, however many jobs there are.
  virtual absl::StatusOr<std::string> FindUser(const std::string& name) = 0;

  /// Number of jobs in each state, also in states without jobs.
  virtual absl::StatusOr<std::map<v1::JobState, int64_t>> CountByState() = 0;

  /// Copies the database, as it is at one moment, to the new file `path`; other
  /// calls go on meanwhile.
  virtual absl::Status CopyTo(const std::string& path) const = 0;

  /// Forgets a job and its events, and marks its folder as deleted; the caller
  /// removes the folder. FAILED_PRECONDITION while the job has not ended.
  virtual absl::Status Delete(const std::string& id) = 0;

  /// Stores for a day that the request `request_id` deletes `target` (of any
  /// kind). Returns the progress of an earlier call with the same id;
  /// ALREADY_EXISTS if it was for another target.
  virtual absl::StatusOr<Deletion> BeginDeletion(const std::string& request_id,
                                                 const std::string& target) = 0;

  /// Stores that the deletion is done, or, with an error, forgets it.
  virtual absl::Status EndDeletion(const std::string& request_id,
                                   const absl::Status& outcome) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_STORE_H_
