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
#include "server/storage/disk_space.h"
#include "server/storage/job_recovery.h"
#include "server/storage/job_rows.h"
#include "server/storage/sqlite.h"

namespace hearth::server {

/// How far a deletion has come.
enum class Deletion { kNew, kBegun, kDone };

/// The table of deletions, by the ids of their requests, so that one that is
/// repeated neither fails nor deletes what has the name by then. The caller
/// makes the transactions. Thread-compatible.
class DeletionRows {
 public:
  /// Both must outlive this. REQUIRES: the tables are there.
  DeletionRows(Database& database, const Clock& clock)
      : database_(database), clock_(clock) {}

  /// See JobStore.
  absl::StatusOr<Deletion> Begin(const std::string& request_id,
                                 const std::string& target);
  absl::Status End(const std::string& request_id, const absl::Status& outcome);

 private:
  absl::Status ForgetOld();
  absl::Status Insert(const std::string& request_id, const std::string& target);

  Database& database_;
  const Clock& clock_;
};

/// The jobs to list.
struct JobQuery {
  /// Only jobs in one of these states; empty = all.
  std::vector<v1::JobState> states;
  /// Jobs a page, 1 to kMaxPageSize.
  int page_size = kDefaultPageSize;
  /// From JobPage::next_page_token; empty = the first page.
  std::string page_token;

  static constexpr int kDefaultPageSize = 100;
  static constexpr int kMaxPageSize = 1000;
};

/// Jobs, newest first. A page also ends at kMaxPageBytes, so that long reports
/// do not pass the size of a message.
struct JobPage {
  std::vector<v1::Job> jobs;
  /// Empty = this was the last page.
  std::string next_page_token;

  static constexpr size_t kMaxPageBytes = 1 << 20;
};

/// Events of a job, in order.
struct EventBatch {
  std::vector<v1::JobEvent> events;
  /// The job has ended, and `events` holds its last event or nothing.
  bool is_last = false;
};

struct JobStoreOptions {
  /// Events of a job that are kept, up to a tenth more; of older ones only
  /// changes of state and epochs are.
  int64_t events_kept = 10'000;
  /// The folders of jobs, which get a copy of each job and from which a lost
  /// database is made again (see job_recovery.h). Must outlive the store; null
  /// = no copies.
  JobFolders* folders = nullptr;
  /// Space of which changes of state, which must be possible on a full disk,
  /// give up parts then. Must outlive the store; null = none.
  DiskReserve* reserve = nullptr;
  /// Jobs that have not ended, in all and of one owner, beyond which none are
  /// added or resumed. Jobs of sweeps count, but are added all the same.
  int64_t max_unended = std::numeric_limits<int64_t>::max();
  int64_t max_unended_of_owner = std::numeric_limits<int64_t>::max();
  /// The SQLite VFS through which the file is reached; empty = SQLite's
  /// default.
  std::string vfs = "";
};

/// The jobs that a change of the tables concerns.
struct ChangedJobs {
  /// Those that are new.
  std::vector<std::string> added;
  /// Those that have new events.
  std::vector<std::string> told;
};

/// Jobs, their events and results, in a SQLite file. What a call has
/// acknowledged survives kill -9 and power loss, but for progress events, which
/// survive the former alone until something else is stored. A job's row and the
/// event that tells of it change in one transaction. Errors name the file.
/// Thread-safe; calls block for the disk.
class JobStore {
 public:
  /// Hears the id of a job that has a new event, after it is stored. Called on
  /// the thread that added it; must not call the store.
  using Listener = std::function<void(const std::string& id)>;

  /// Opens or creates the file, brings one of an older version to today's (see
  /// schema.h), and sets aside what is damaged (see job_recovery.h).
  /// FAILED_PRECONDITION if a newer version wrote it. `clock` must outlive the
  /// store.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(
      io::FileSystem& files, const std::string& path, const Clock& clock,
      Listener listener, JobStoreOptions options = {});
  virtual ~JobStore() = default;

  /// Facts about the opening that an operator should know: damage that was
  /// found, jobs that were listed again. One sentence each.
  virtual const std::vector<std::string>& warnings() const = 0;

  /// Adds a job, QUEUED. A `request_id` (empty = none) seen before
  /// gives the job of then if the specs are equal, else ALREADY_EXISTS.
  /// RESOURCE_EXHAUSTED, naming the limit, if there are too many. Jobs that are
  /// added at the same time by several threads are stored in one transaction.
  virtual absl::StatusOr<v1::Job> Submit(const std::string& request_id,
                                         const v1::JobSpec& spec, int priority,
                                         const JobOrigin& origin) = 0;
  /// The same of nobody.
  absl::StatusOr<v1::Job> Submit(const std::string& request_id,
                                 const v1::JobSpec& spec, int priority = 0) {
    return Submit(request_id, spec, priority, JobOrigin());
  }

  /// OK if a job of `owner` could be added now; RESOURCE_EXHAUSTED as Submit.
  virtual absl::Status CheckRoom(const std::string& owner) = 0;

  /// The job that Submit would return without adding one; nullopt if it would
  /// add one.
  virtual absl::StatusOr<std::optional<v1::Job>> FindRequest(
      const std::string& request_id, const v1::JobSpec& spec) = 0;

  /// The job of this id. NOT_FOUND for an unknown one. The report of a train
  /// job has the epochs finished so far.
  virtual absl::StatusOr<v1::Job> Get(const std::string& id) = 0;

  /// The owner of a job, empty if it has none. NOT_FOUND for an unknown id.
  virtual absl::StatusOr<std::string> GetOwner(const std::string& id) = 0;

  /// A page of jobs. INVALID_ARGUMENT for a token that is none, or a page size
  /// out of range.
  virtual absl::StatusOr<JobPage> List(const JobQuery& query) = 0;

  /// Up to `limit` events from sequence number `from` on. NOT_FOUND for an
  /// unknown id.
  virtual absl::StatusOr<EventBatch> ReadEvents(const std::string& id,
                                                uint64_t from, int limit) = 0;

  /// Queues a job that FAILED or was CANCELLED once more, with `spec`, as
  /// `request` asks. A request_id seen before changes nothing and gives the job
  /// if the requests are equal, else ALREADY_EXISTS. FAILED_PRECONDITION for a
  /// job in another state.
  virtual absl::StatusOr<v1::Job> Resume(const v1::ResumeJobRequest& request,
                                         const v1::JobSpec& spec) = 0;

  /// The job that Resume would return for a request_id seen before; nullopt for
  /// a new one.
  virtual absl::StatusOr<std::optional<v1::Job>> FindResume(
      const v1::ResumeJobRequest& request) = 0;
  /// The newest `count` events that are not progress, in order. NOT_FOUND for
  /// an unknown id.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> ReadTail(
      const std::string& id, int count) = 0;

  /// Adds an event; its sequence number and time are set here.
  virtual absl::Status Append(const std::string& id, v1::JobEvent event) = 0;

  /// Adds the event of an epoch, unless the job has one of that epoch or of a
  /// later one: a job that went on from a checkpoint may report some again.
  virtual absl::Status AppendEpoch(const std::string& id,
                                   const v1::EpochReport& epoch) = 0;

  /// Sets data.first_epoch_key in the spec of a train job.
  virtual absl::Status SetFirstEpochKey(const std::string& id,
                                        uint32_t key) = 0;

  /// Moves a job on and adds the event that says so. FAILED_PRECONDITION for a
  /// step that MayFollow does not allow.
  virtual absl::Status ChangeState(const std::string& id,
                                   const StateUpdate& update) = 0;

  /// Remembers that an active job shall be cancelled, lest a restart run it
  /// again.
  virtual absl::Status RequestCancel(const std::string& id) = 0;

  /// Puts jobs that a killed daemon left PREPARING or RUNNING back to QUEUED,
  /// or to CANCELLED if that had been asked for, or to FAILED if that was the
  /// `retries`th time in a row; cancels queued ones for which that had been
  /// asked. Call once, before any job is run.
  virtual absl::Status RecoverInterrupted(int retries) = 0;

  /// Notes that work of the job is durable: the times that it was interrupted
  /// before are not in a row with those to come.
  virtual absl::Status ForgetInterruptions(const std::string& id) = 0;

  /// Runs `change` on the tables, in one transaction, which an error rolls
  /// back, so that what belongs together with jobs is stored together with
  /// them. It may be called several times, and must not call the store.
  using Change =
      absl::FunctionRef<absl::Status(Database&, JobRows&, ChangedJobs&)>;
  virtual absl::Status Transact(Change change) = 0;

  /// All jobs that have not ended, in order of submission; without epochs.
  virtual absl::StatusOr<std::vector<v1::Job>> Unended() = 0;

  /// The id of the first job that has not ended and uses `name` (see
  /// job_uses.h); empty if none does. However many jobs there are, it looks at
  /// one.
  virtual absl::StatusOr<std::string> FindUser(const std::string& name) = 0;

  /// Number of jobs in each state; all states are there.
  virtual absl::StatusOr<std::map<v1::JobState, int64_t>> CountByState() = 0;

  /// Copies the database, as it is at one moment, to the new file `path`, while
  /// others go on using the store.
  virtual absl::Status CopyTo(const std::string& path) const = 0;

  /// Forgets a job and its events; marks its folder as deleted, which is for
  /// the caller to remove. FAILED_PRECONDITION while it has not ended.
  virtual absl::Status Delete(const std::string& id) = 0;

  /// Notes that the request `request_id` deletes `target` (of any kind), for a
  /// day. How far an earlier call with the same id has come; ALREADY_EXISTS if
  /// that was for another target.
  virtual absl::StatusOr<Deletion> BeginDeletion(const std::string& request_id,
                                                 const std::string& target) = 0;

  /// Notes that it is done, or, with an error, that it never was.
  virtual absl::Status EndDeletion(const std::string& request_id,
                                   const absl::Status& outcome) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_STORE_H_
