// Every call takes the mutex, does one transaction, lets the mutex go and then
// tells the listener, so that a listener never hears of what is not durable.
#include "server/storage/job_store.h"

#include <google/protobuf/util/message_differencer.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"
#include "server/storage/job_state.h"
#include "server/storage/schema.h"

namespace hearth::server {
namespace {

constexpr v1::JobState kStates[] = {v1::QUEUED,    v1::PREPARING, v1::RUNNING,
                                    v1::SUCCEEDED, v1::FAILED,    v1::CANCELLED,
                                    v1::WAITING};

// An opaque page token: the number that the page's jobs lie below.
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

// The state of a job that the daemon died with, once more than `job` says.
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
                 Listener listener, DiskReserve* reserve)
      : listener_(std::move(listener)),
        reserve_(reserve),
        database_(std::move(database)),
        rows_(*database_, clock),
        deletions_(*database_, clock) {}

  absl::StatusOr<v1::Job> Submit(const std::string& request_id,
                                 const v1::JobSpec& spec,
                                 int priority) override {
    v1::Job job;
    HEARTH_RETURN_IF_ERROR(
        Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> existing,
                                  Find(request_id, spec));
          if (existing.has_value()) {
            job = *existing;
            return absl::OkStatus();
          }
          HEARTH_ASSIGN_OR_RETURN(const std::string id,
                                  rows_.Insert(request_id, spec, priority));
          v1::JobEvent event;
          event.mutable_state()->set_state(v1::QUEUED);
          HEARTH_RETURN_IF_ERROR(rows_.AddEvent(id, std::move(event)));
          HEARTH_ASSIGN_OR_RETURN(job, rows_.Read(id));
          return absl::OkStatus();
        }));
    listener_(job.id());
    return job;
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
          HEARTH_RETURN_IF_ERROR(rows_.Requeue(request, spec));
          HEARTH_ASSIGN_OR_RETURN(job, rows_.Read(request.id()));
          return absl::OkStatus();
        }));
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
    const int64_t last = JobRows::NumberOf(page.jobs.back().id());
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> more,
                            rows_.ReadBelow(last, query.states, 1, 0));
    if (!more.empty()) page.next_page_token = MakePageToken(last);
    return page;
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

  absl::Status Append(const std::string& id, v1::JobEvent event) override {
    HEARTH_RETURN_IF_ERROR(
        Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(rows_.ReadProgress(id).status());
          return rows_.AddEvent(id, std::move(event));
        }));
    listener_(id);
    return absl::OkStatus();
  }

  absl::Status AppendEpoch(const std::string& id,
                           const v1::EpochReport& epoch) override {
    bool is_new = false;
    HEARTH_RETURN_IF_ERROR(
        Commit([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(rows_.ReadProgress(id).status());
          HEARTH_ASSIGN_OR_RETURN(const uint32_t last, rows_.LastEpoch(id));
          is_new = epoch.epoch() > last;
          if (!is_new) return absl::OkStatus();
          v1::JobEvent event;
          *event.mutable_epoch() = epoch;
          return rows_.AddEvent(id, std::move(event));
        }));
    if (is_new) listener_(id);
    return absl::OkStatus();
  }

  absl::Status ChangeState(const std::string& id,
                           const StateUpdate& update) override {
    HEARTH_RETURN_IF_ERROR(
        CommitWithReserve([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return rows_.Move(id, update);
        }));
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

  absl::Status RecoverInterrupted(int retries) override {
    return CommitWithReserve(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(const std::vector<ActiveJob> active,
                                  rows_.ReadActive());
          for (const ActiveJob& job : active) {
            HEARTH_RETURN_IF_ERROR(
                rows_.SetInterruptions(job.id, job.interruptions + 1));
            HEARTH_RETURN_IF_ERROR(
                rows_.Move(job.id, AfterInterruption(job, retries)));
          }
          return absl::OkStatus();
        });
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

  absl::StatusOr<std::map<v1::JobState, int64_t>> CountByState() override {
    absl::MutexLock lock(&mutex_);
    using Counts = std::map<v1::JobState, int64_t>;
    HEARTH_ASSIGN_OR_RETURN(Counts counts, rows_.CountByState());
    for (const v1::JobState state : kStates) counts.try_emplace(state, 0);
    return counts;
  }

  absl::Status Delete(const std::string& id) override {
    return CommitWithReserve(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(const JobProgress progress,
                                  rows_.ReadProgress(id));
          if (!HasEnded(progress.state)) {
            return absl::FailedPreconditionError(
                absl::StrCat("job ", id, " has not ended; cancel it first"));
          }
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
  // Runs `change` in a transaction, which an error rolls back.
  template <typename Change>
  absl::Status Commit(const Change& change) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    HEARTH_ASSIGN_OR_RETURN(const auto transaction,
                            Transaction::Begin(*database_));
    HEARTH_RETURN_IF_ERROR(change());
    return transaction->Commit();
  }

  // The same for a change that must be possible on a full disk. It may be
  // called several times.
  template <typename Change>
  absl::Status CommitWithReserve(const Change& change)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    return WriteWith(reserve_, [&] { return Commit(change); });
  }

  // The job of an earlier submission, which must have been the same.
  absl::StatusOr<std::optional<v1::Job>> Find(const std::string& request_id,
                                              const v1::JobSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (request_id.empty()) return std::nullopt;
    HEARTH_ASSIGN_OR_RETURN(std::optional<v1::Job> job,
                            rows_.FindRequest(request_id));
    if (job.has_value() && !google::protobuf::util::MessageDifferencer::Equals(
                               job->spec(), spec)) {
      return absl::AlreadyExistsError(
          absl::StrCat("request_id \"", absl::Utf8SafeCEscape(request_id),
                       "\" was used for ", job->id(), " with another spec"));
    }
    return job;
  }

  // The job that an equal request has resumed before.
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
  DiskReserve* const reserve_;
  absl::Mutex mutex_;
  const std::unique_ptr<Database> database_ ABSL_PT_GUARDED_BY(mutex_);
  JobRows rows_ ABSL_GUARDED_BY(mutex_);
  DeletionRows deletions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(
    io::FileSystem& files, const std::string& path, const Clock& clock,
    Listener listener, DiskReserve* reserve) {
  std::unique_ptr<Database> database;
  HEARTH_RETURN_IF_ERROR(WriteWith(reserve, [&]() -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(database, Database::Open(path));
    return UpdateSchema(files, *database);
  }));
  return std::make_unique<SqliteJobStore>(std::move(database), clock,
                                          std::move(listener), reserve);
}

}  // namespace hearth::server
