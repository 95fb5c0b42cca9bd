#include "server/storage/job_store.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "server/log.h"
#include "server/storage/disk_space.h"
#include "server/storage/job_recovery.h"
#include "server/storage/job_rows.h"
#include "server/storage/sqlite.h"

namespace hearth::server {

// Every call takes the mutex, does one transaction, releases the mutex and then
// calls the listener, so that a listener never hears of an event that is not
// stored.
//
// Concurrent submissions share a transaction, and with it the sync of the disk,
// which takes longer than all else: the first of the waiting submissions stores
// all of them, and submissions that arrive meanwhile are stored next.
//
// The copy in a job's folder is written after the row and before the listener
// is called, under a mutex of its own, which is taken first: the copy is always
// made of the newest row, and readers of rows do not wait for it. Copies of
// different jobs are mostly written at the same time, so that the file system
// syncs them together. The row counts; a copy that could not be written is made
// at the next start. Submission does not wait for the job's first copy: its
// syncs would take most of the time.

namespace {

// Clients repeat a request for minutes at most.
constexpr absl::Duration kKept = absl::Hours(24);

// Table of deletions by the ids of their requests, so that a repeated deletion
// neither fails nor deletes something new of the same name. The caller makes
// the transactions. Thread-compatible.
class DeletionRows {
 public:
  // `database` and `clock` must outlive the object. REQUIRES: the tables exist.
  DeletionRows(Database& database, const Clock& clock)
      : database_(database), clock_(clock) {}

  // See JobStore::BeginDeletion, EndDeletion.
  absl::StatusOr<Deletion> Begin(const std::string& request_id,
                                 const std::string& target);
  absl::Status End(const std::string& request_id, const absl::Status& outcome);

 private:
  absl::Status ForgetOld();
  absl::Status Insert(const std::string& request_id, const std::string& target);

  Database& database_;
  const Clock& clock_;
};

absl::StatusOr<Deletion> DeletionRows::Begin(const std::string& request_id,
                                             const std::string& target) {
  HEARTH_RETURN_IF_ERROR(ForgetOld());
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(
          "SELECT target, done FROM deletions WHERE request_id = ?1"));
  statement.BindText(1, request_id);
  HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) {
    HEARTH_RETURN_IF_ERROR(Insert(request_id, target));
    return Deletion::kNew;
  }
  if (statement.Bytes(0) != target) {
    return absl::AlreadyExistsError(absl::StrCat(
        "request_id \"", absl::Utf8SafeCEscape(request_id),
        "\" was used to delete ", absl::Utf8SafeCEscape(statement.Bytes(0))));
  }
  return statement.Int64(1) != 0 ? Deletion::kDone : Deletion::kBegun;
}

absl::Status DeletionRows::ForgetOld() {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("DELETE FROM deletions WHERE time_ns < ?1"));
  return statement.Bind(1, absl::ToUnixNanos(clock_.Now() - kKept)).Run();
}

absl::Status DeletionRows::Insert(const std::string& request_id,
                                  const std::string& target) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("INSERT INTO deletions (request_id, target, time_ns) "
                        "VALUES (?1, ?2, ?3)"));
  statement.BindText(1, request_id).BindText(2, target);
  return statement.Bind(3, absl::ToUnixNanos(clock_.Now())).Run();
}

absl::Status DeletionRows::End(const std::string& request_id,
                               const absl::Status& outcome) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(
          outcome.ok() ? "UPDATE deletions SET done = 1 WHERE request_id = ?1"
                       : "DELETE FROM deletions WHERE request_id = ?1"));
  return statement.BindText(1, request_id).Run();
}

// More progress events than a power loss can take from a job: SQLite syncs its
// log before it reaches a few hundred commits. Their numbers are not given out
// again, since watchers may have seen them.
constexpr uint64_t kLostProgress = 1000;

constexpr v1::JobState kStates[] = {v1::QUEUED,    v1::PREPARING, v1::RUNNING,
                                    v1::SUCCEEDED, v1::FAILED,    v1::CANCELLED,
                                    v1::WAITING};

// `stored` as it may have been submitted: fields that the daemon sets are taken
// from `spec`.
v1::JobSpec AsSubmitted(v1::JobSpec stored, const v1::JobSpec& spec) {
  if (stored.train().join()) {
    stored.mutable_train()->mutable_data()->set_first_epoch_key(
        spec.train().data().first_epoch_key());
  }
  if (stored.has_evaluate()) {
    stored.mutable_evaluate()->clear_train();
    if (spec.evaluate().has_train()) {
      *stored.mutable_evaluate()->mutable_train() = spec.evaluate().train();
    }
  }
  return stored;
}

// Opaque page token: jobs of the page have numbers below `below`.
std::string MakePageToken(int64_t below) {
  std::string token;
  absl::WebSafeBase64Escape(absl::StrCat("below:", below), &token);
  return token;
}

absl::StatusOr<int64_t> ParsePageToken(const std::string& token) {
  if (token.empty()) return INT64_MAX;
  std::string text;
  int64_t below = 0;
  if (absl::WebSafeBase64Unescape(token, &text)) {
    absl::string_view digits = text;
    if (absl::ConsumePrefix(&digits, "below:") &&
        absl::SimpleAtoi(digits, &below) && below > 0) {
      return below;
    }
  }
  return absl::InvalidArgumentError(
      "page_token is not one that ListJobs has returned");
}

// New state of a job that the daemon died with, once more than `job` says.
StateUpdate AfterInterruption(const ActiveJob& job, int retries) {
  StateUpdate update;
  if (job.cancel_requested) {
    update.state = v1::CANCELLED;
  } else if (job.interruptions + 1 < retries) {
    update.state = v1::QUEUED;
  } else {
    update.state = v1::FAILED;
    v1::JobError& error = update.error.emplace();
    error.set_code(static_cast<int>(absl::StatusCode::kAborted));
    error.set_message(absl::StrCat(
        "hearthd died ", job.interruptions + 1,
        " times in a row while this job ran, without a checkpoint or another "
        "part of it done in between; `hearth job resume ",
        job.id, "` tries again"));
  }
  return update;
}

absl::Status WriteWith(DiskReserve* reserve,
                       absl::FunctionRef<absl::Status()> attempt) {
  return reserve == nullptr ? attempt() : reserve->Write(attempt);
}

class SqliteJobStore final : public JobStore {
 public:
  SqliteJobStore(std::unique_ptr<Database> database, const Clock& clock,
                 Listener listener, const JobStoreOptions& options)
      : listener_(std::move(listener)),
        folders_(options.folders),
        reserve_(options.reserve),
        max_unended_(options.max_unended),
        max_unended_of_owner_(options.max_unended_of_owner),
        path_(database->path()),
        vfs_(database->vfs()),
        database_(std::move(database)),
        rows_(*database_, clock, options.events_kept),
        deletions_(*database_, clock) {}

  // Makes rows and folders agree. Called before the store is used.
  absl::Status Recover(std::vector<std::string> warnings) {
    absl::MutexLock lock(&mutex_);
    warnings_ = std::move(warnings);
    HEARTH_RETURN_IF_ERROR(SetAsideDamagedRows(*database_, rows_, warnings_));
    if (folders_ != nullptr) {
      HEARTH_RETURN_IF_ERROR(
          AdoptFolders(*database_, rows_, *folders_, warnings_));
    }
    return rows_.IndexUses();
  }

  const std::vector<std::string>& warnings() const override {
    return warnings_;
  }

  absl::Status CopyTo(const std::string& path) const override {
    return Database::Copy(path_, path, vfs_);
  }

  absl::StatusOr<v1::Job> Submit(const std::string& request_id,
                                 const v1::JobSpec& spec, int priority,
                                 const JobOrigin& origin) override {
    Submission mine = {.request_id = request_id,
                       .spec = spec,
                       .priority = priority,
                       .origin = origin};
    StoreTogether(mine);
    HEARTH_RETURN_IF_ERROR(mine.status);
    if (mine.is_new) WriteFirstCopy(mine.job, request_id);
    listener_(mine.job.id());
    return std::move(mine.job);
  }

  absl::Status CheckRoom(const std::string& owner) override {
    absl::MutexLock lock(&mutex_);
    return CheckRoomLocked(owner);
  }

  absl::StatusOr<std::optional<v1::Job>> FindRequest(
      const std::string& request_id, const v1::JobSpec& spec) override {
    absl::MutexLock lock(&mutex_);
    return Find(request_id, spec);
  }

  absl::StatusOr<v1::Job> Resume(const v1::ResumeJobRequest& request,
                                 const v1::JobSpec& spec) override {
    v1::Job job;
    HEARTH_RETURN_IF_ERROR(
        Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> resumed,
                                  FindResumed(request));
          if (resumed.has_value()) {
            job = *resumed;
            return absl::OkStatus();
          }
          HEARTH_ASSIGN_OR_RETURN(const std::string owner,
                                  rows_.ReadOwner(request.id()));
          HEARTH_RETURN_IF_ERROR(CheckRoomLocked(owner));
          HEARTH_RETURN_IF_ERROR(rows_.Requeue(request, spec));
          HEARTH_ASSIGN_OR_RETURN(job, rows_.Read(request.id()));
          return absl::OkStatus();
        }));
    WriteCopy(job.id());
    listener_(job.id());
    return job;
  }

  absl::StatusOr<std::optional<v1::Job>> FindResume(
      const v1::ResumeJobRequest& request) override {
    absl::MutexLock lock(&mutex_);
    return FindResumed(request);
  }

  absl::StatusOr<v1::Job> Get(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    return rows_.Read(id);
  }

  absl::StatusOr<std::string> GetOwner(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    return rows_.ReadOwner(id);
  }

  absl::StatusOr<JobPage> List(const JobQuery& query) override {
    HEARTH_ASSIGN_OR_RETURN(const int64_t below,
                            ParsePageToken(query.page_token));
    if (query.page_size < 1 || query.page_size > JobQuery::kMaxPageSize) {
      return absl::InvalidArgumentError(
          absl::StrCat("page_size must be from 1 to ", JobQuery::kMaxPageSize));
    }
    absl::MutexLock lock(&mutex_);
    JobPage page;
    HEARTH_ASSIGN_OR_RETURN(
        page.jobs, rows_.ReadBelow(below, query.states, query.page_size,
                                   JobPage::kMaxPageBytes));
    if (page.jobs.empty()) return page;
    const int64_t last = JobNumber(page.jobs.back().id());
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> more,
                            rows_.ReadBelow(last, query.states, 1, 0));
    if (!more.empty()) page.next_page_token = MakePageToken(last);
    return page;
  }

  absl::StatusOr<std::vector<v1::Job>> Newest(
      const std::vector<JobGroup>& groups) override {
    absl::MutexLock lock(&mutex_);
    std::vector<v1::Job> jobs;
    for (const JobGroup& group : groups) {
      HEARTH_ASSIGN_OR_RETURN(
          std::vector<v1::Job> some,
          rows_.ReadNewest(group.states, group.limit, group.outside_sweeps));
      std::move(some.begin(), some.end(), std::back_inserter(jobs));
    }
    std::sort(jobs.begin(), jobs.end(), [](const v1::Job& a, const v1::Job& b) {
      return JobNumber(a.id()) > JobNumber(b.id());
    });
    return jobs;
  }

  absl::StatusOr<EventBatch> ReadEvents(const std::string& id, uint64_t from,
                                        int limit) override {
    absl::MutexLock lock(&mutex_);
    HEARTH_ASSIGN_OR_RETURN(const JobProgress progress, rows_.ReadProgress(id));
    EventBatch batch;
    HEARTH_ASSIGN_OR_RETURN(batch.events, rows_.ReadEvents(id, from, limit));
    const bool reaches_end =
        batch.events.empty()
            ? from > progress.last_sequence
            : batch.events.back().sequence() == progress.last_sequence;
    batch.is_last = reaches_end && HasEnded(progress.state);
    return batch;
  }

  absl::StatusOr<std::vector<v1::JobEvent>> ReadTail(const std::string& id,
                                                     int count) override {
    absl::MutexLock lock(&mutex_);
    HEARTH_RETURN_IF_ERROR(rows_.ReadProgress(id).status());
    return rows_.ReadTail(id, count);
  }

  absl::Status Append(const std::string& id, v1::JobEvent event) override {
    // Progress that a power loss takes is not missed.
    const Durability durability =
        event.has_progress() ? Durability::kLazily : Durability::kAtOnce;
    HEARTH_RETURN_IF_ERROR(Commit(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(rows_.ReadProgress(id).status());
          return rows_.AddEvent(id, std::move(event));
        },
        durability));
    listener_(id);
    return absl::OkStatus();
  }

  absl::Status AppendEpoch(const std::string& id,
                           const v1::EpochReport& epoch) override {
    bool is_new = false;
    HEARTH_RETURN_IF_ERROR(
        Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(rows_.ReadProgress(id).status());
          HEARTH_ASSIGN_OR_RETURN(is_new, rows_.AddEpoch(id, epoch));
          return absl::OkStatus();
        }));
    if (is_new) listener_(id);
    return absl::OkStatus();
  }

  absl::Status SetFirstEpochKey(const std::string& id, uint32_t key) override {
    HEARTH_RETURN_IF_ERROR(
        Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(const v1::Job job, rows_.Read(id));
          v1::JobSpec spec = job.spec();
          v1::DataSpec& data = spec.has_feed()
                                   ? *spec.mutable_feed()->mutable_data()
                                   : *spec.mutable_train()->mutable_data();
          data.set_first_epoch_key(key);
          return rows_.SetSpec(id, spec);
        }));
    WriteCopy(id);
    return absl::OkStatus();
  }

  absl::Status ChangeState(const std::string& id,
                           const StateUpdate& update) override {
    // Files that the job is about to write lie in its folder, which must last.
    if (update.state == v1::PREPARING) WriteCopy(id);
    HEARTH_RETURN_IF_ERROR(
        CommitWithReserve([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return rows_.Move(id, update);
        }));
    if (HasEnded(update.state) || update.state == v1::QUEUED) WriteCopy(id);
    listener_(id);
    return absl::OkStatus();
  }

  absl::Status RequestCancel(const std::string& id) override {
    return CommitWithReserve(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(rows_.ReadProgress(id).status());
          return rows_.SetCancelRequested(id);
        });
  }

  absl::Status Transact(Change change) override {
    ChangedJobs changed;
    HEARTH_RETURN_IF_ERROR(
        CommitWithReserve([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          changed = ChangedJobs();
          return change(*database_, rows_, changed);
        }));
    for (const std::string& id : changed.added) {
      WriteCopy(id);
      listener_(id);
    }
    for (const std::string& id : changed.told) listener_(id);
    return absl::OkStatus();
  }

  absl::Status RecoverInterrupted(int retries) override {
    std::vector<ActiveJob> active;
    std::vector<std::string> cancelled;
    HEARTH_RETURN_IF_ERROR(CommitWithReserve(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(active, rows_.ReadActive());
          for (const ActiveJob& job : active) {
            HEARTH_RETURN_IF_ERROR(rows_.SkipSequences(job.id, kLostProgress));
            HEARTH_RETURN_IF_ERROR(
                rows_.SetInterruptions(job.id, job.interruptions + 1));
            HEARTH_RETURN_IF_ERROR(
                rows_.Move(job.id, AfterInterruption(job, retries)));
          }
          HEARTH_ASSIGN_OR_RETURN(cancelled, rows_.ReadToBeCancelled());
          for (const std::string& id : cancelled) {
            StateUpdate update;
            update.state = v1::CANCELLED;
            HEARTH_RETURN_IF_ERROR(rows_.Move(id, update));
          }
          return absl::OkStatus();
        }));
    for (const ActiveJob& job : active) WriteCopy(job.id);
    for (const std::string& id : cancelled) WriteCopy(id);
    return absl::OkStatus();
  }

  absl::Status ForgetInterruptions(const std::string& id) override {
    return Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return rows_.SetInterruptions(id, 0);
    });
  }

  absl::StatusOr<std::vector<v1::Job>> Unended() override {
    absl::MutexLock lock(&mutex_);
    return rows_.ReadUnended();
  }

  absl::StatusOr<std::string> FindUser(const std::string& name) override {
    absl::MutexLock lock(&mutex_);
    return rows_.FindUser(name);
  }

  absl::StatusOr<std::map<v1::JobState, int64_t>> CountByState() override {
    absl::MutexLock lock(&mutex_);
    using Counts = std::map<v1::JobState, int64_t>;
    HEARTH_ASSIGN_OR_RETURN(Counts counts, rows_.CountByState());
    for (const v1::JobState state : kStates) counts.try_emplace(state, 0);
    return counts;
  }

  absl::Status Delete(const std::string& id) override {
    absl::MutexLock deletion(&deletion_mutex_);
    absl::MutexLock copy(&CopyMutex(id));
    {
      absl::MutexLock lock(&mutex_);
      HEARTH_RETURN_IF_ERROR(CheckDeletable(id));
    }
    if (folders_ != nullptr) {
      // A full disk must not keep anybody from deleting.
      const absl::Status marked = folders_->MarkDeleted(id, JobNumber(id));
      if (!marked.ok()) LogWarning(id, ": ", marked.ToString());
    }
    return CommitWithReserve(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(CheckDeletable(id));
          return rows_.Delete(id);
        });
  }

  absl::StatusOr<Deletion> BeginDeletion(const std::string& request_id,
                                         const std::string& target) override {
    Deletion deletion = Deletion::kNew;
    HEARTH_RETURN_IF_ERROR(Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                                      mutex_) -> absl::Status {
      HEARTH_ASSIGN_OR_RETURN(deletion, deletions_.Begin(request_id, target));
      return absl::OkStatus();
    }));
    return deletion;
  }

  absl::Status EndDeletion(const std::string& request_id,
                           const absl::Status& outcome) override {
    return Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return deletions_.End(request_id, outcome);
    });
  }

 private:
  // Call of Submit that waits for its transaction.
  struct Submission {
    const std::string& request_id;
    const v1::JobSpec& spec;
    int priority = 0;
    const JobOrigin& origin;
    bool is_done = false;
    absl::Status status = absl::OkStatus();
    // Whether `job` was added.
    bool is_new = false;
    v1::Job job = {};
  };

  // Returns once the submission is stored, by this call or another one.
  void StoreTogether(Submission& mine)
      ABSL_LOCKS_EXCLUDED(submissions_mutex_, mutex_) {
    std::vector<Submission*> together;
    {
      absl::MutexLock lock(&submissions_mutex_);
      submissions_.push_back(&mine);
      while (is_storing_ && !mine.is_done) stored_.Wait(&submissions_mutex_);
      if (mine.is_done) return;
      is_storing_ = true;
      together.swap(submissions_);
    }
    const absl::Status status =
        Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          for (Submission* one : together) {
            HEARTH_RETURN_IF_ERROR(Store(*one));
          }
          return absl::OkStatus();
        });
    absl::MutexLock lock(&submissions_mutex_);
    for (Submission* one : together) {
      one->status.Update(status);
      one->is_done = true;
    }
    is_storing_ = false;
    stored_.SignalAll();
  }

  // Errors of this submission alone go to one.status; nothing was written for
  // it.
  absl::Status Store(Submission& one) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::StatusOr<std::optional<v1::Job>> existing =
        Find(one.request_id, one.spec);
    one.status = existing.status();
    if (existing.ok() && existing->has_value()) {
      one.job = **existing;
      return absl::OkStatus();
    }
    if (one.status.ok()) one.status = CheckRoomLocked(one.origin.owner);
    if (!one.status.ok()) return absl::OkStatus();
    one.is_new = true;
    HEARTH_ASSIGN_OR_RETURN(const std::string id,
                            rows_.Insert(one.request_id, one.spec, one.priority,
                                         std::nullopt, one.origin));
    v1::JobEvent event;
    event.mutable_state()->set_state(v1::QUEUED);
    HEARTH_RETURN_IF_ERROR(rows_.AddEvent(id, std::move(event)));
    HEARTH_ASSIGN_OR_RETURN(one.job, rows_.Read(id));
    return absl::OkStatus();
  }

  absl::Status CheckRoomLocked(const std::string& owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    HEARTH_ASSIGN_OR_RETURN(const auto counts, rows_.CountByState());
    int64_t unended = 0;
    for (const auto& [state, count] : counts) {
      if (!HasEnded(state)) unended += count;
    }
    if (unended >= max_unended_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the queue is full: ", unended,
          " jobs have not ended, and --max-queued-jobs is ", max_unended_));
    }
    HEARTH_ASSIGN_OR_RETURN(const int64_t of_owner,
                            rows_.CountUnendedOf(owner));
    if (of_owner < max_unended_of_owner_) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        of_owner, " jobs of ", owner.empty() ? std::string("nobody") : owner,
        " have not ended, and --max-queued-jobs-per-user is ",
        max_unended_of_owner_));
  }

  absl::Mutex& CopyMutex(const std::string& id) {
    return copy_mutexes_[static_cast<size_t>(JobNumber(id)) %
                         copy_mutexes_.size()];
  }

  // Runs `change` in a transaction, which an error rolls back.
  template <typename Change>
  absl::Status Commit(const Change& change,
                      Durability durability = Durability::kAtOnce)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    HEARTH_ASSIGN_OR_RETURN(const auto transaction,
                            Transaction::Begin(*database_, durability));
    HEARTH_RETURN_IF_ERROR(change());
    return transaction->Commit();
  }

  // Commit for a change that must be possible on a full disk. `change` may be
  // called several times.
  template <typename Change>
  absl::Status CommitWithReserve(const Change& change)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    return WriteWith(reserve_, [&] { return Commit(change); });
  }

  absl::Status CheckDeletable(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    HEARTH_ASSIGN_OR_RETURN(const JobProgress progress, rows_.ReadProgress(id));
    if (HasEnded(progress.state)) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " has not ended; cancel it first"));
  }

  // Writes the current row to the copy in the job's folder.
  void WriteCopy(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (folders_ == nullptr) return;
    absl::MutexLock copy(&CopyMutex(id));
    absl::StatusOr<v1::Job> job;
    absl::StatusOr<std::string> request_id;
    {
      absl::MutexLock lock(&mutex_);
      job = rows_.Read(id);
      // Another thread has deleted the job.
      if (absl::IsNotFound(job.status())) return;
      request_id = rows_.ReadRequestId(id);
    }
    absl::Status status = job.status();
    status.Update(request_id.status());
    if (status.ok()) status = folders_->Write(*job, *request_id);
    if (!status.ok()) {
      LogWarning(id, ": no copy in its folder: ", status.ToString());
    }
  }

  // Writes the first copy of a job that was just added, unless the job has
  // changed since.
  void WriteFirstCopy(const v1::Job& job, const std::string& request_id)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    if (folders_ == nullptr) return;
    absl::MutexLock copy(&CopyMutex(job.id()));
    {
      absl::MutexLock lock(&mutex_);
      const absl::StatusOr<JobProgress> now = rows_.ReadProgress(job.id());
      if (!now.ok() || now->last_sequence != job.last_sequence()) return;
    }
    const absl::Status status = folders_->WriteFirst(job, request_id);
    if (!status.ok()) {
      LogWarning(job.id(), ": no copy in its folder: ", status.ToString());
    }
  }

  // Job of an earlier submission with this id. ALREADY_EXISTS if the specs
  // differ.
  absl::StatusOr<std::optional<v1::Job>> Find(const std::string& request_id,
                                              const v1::JobSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request_id.empty()) return std::nullopt;
    HEARTH_ASSIGN_OR_RETURN(std::optional<v1::Job> job,
                            rows_.FindRequest(request_id));
    if (job.has_value() && !google::protobuf::util::MessageDifferencer::Equals(
                               AsSubmitted(job->spec(), spec), spec)) {
      return absl::AlreadyExistsError(
          absl::StrCat("request_id \"", absl::Utf8SafeCEscape(request_id),
                       "\" was used for ", job->id(), " with another spec"));
    }
    return job;
  }

  // Job that an equal request has resumed before; nullopt if none has.
  // ALREADY_EXISTS if the requests differ.
  absl::StatusOr<std::optional<v1::Job>> FindResumed(
      const v1::ResumeJobRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request.request_id().empty()) return std::nullopt;
    HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::ResumeJobRequest> earlier,
                            rows_.FindResume(request.request_id()));
    if (!earlier.has_value()) return std::nullopt;
    if (!google::protobuf::util::MessageDifferencer::Equals(*earlier,
                                                            request)) {
      return absl::AlreadyExistsError(absl::StrCat(
          "request_id \"", absl::Utf8SafeCEscape(request.request_id()),
          "\" was used to resume ", earlier->id(), " in another way"));
    }
    return rows_.Read(request.id());
  }

  const Listener listener_;
  JobFolders* const folders_;
  DiskReserve* const reserve_;
  const int64_t max_unended_;
  const int64_t max_unended_of_owner_;
  const std::string path_;
  const std::string vfs_;
  std::vector<std::string> warnings_;
  // Serializes deletions; taken first.
  absl::Mutex deletion_mutex_;
  // Each mutex serializes the copies of some jobs; taken before mutex_.
  std::array<absl::Mutex, 64> copy_mutexes_;
  absl::Mutex submissions_mutex_;
  // Signalled when submissions have been stored.
  absl::CondVar stored_;
  bool is_storing_ ABSL_GUARDED_BY(submissions_mutex_) = false;
  // Submissions that no thread stores yet.
  std::vector<Submission*> submissions_ ABSL_GUARDED_BY(submissions_mutex_);
  absl::Mutex mutex_;
  const std::unique_ptr<Database> database_ ABSL_PT_GUARDED_BY(mutex_);
  JobRows rows_ ABSL_GUARDED_BY(mutex_);
  DeletionRows deletions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(
    io::FileSystem& files, const std::string& path, const Clock& clock,
    Listener listener, JobStoreOptions options) {
  std::vector<std::string> warnings;
  std::unique_ptr<Database> database;
  HEARTH_RETURN_IF_ERROR(WriteWith(options.reserve, [&]() -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(
        database, OpenJobDatabase(files, path, options.vfs, clock, warnings));
    return UpdateSchema(files, *database);
  }));
  auto store = std::make_unique<SqliteJobStore>(std::move(database), clock,
                                                std::move(listener), options);
  HEARTH_RETURN_IF_ERROR(
      WriteWith(options.reserve, [&] { return store->Recover(warnings); }));
  return store;
}

}  // namespace hearth::server
