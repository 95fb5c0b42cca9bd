#include "server/storage/job_rows.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "engine/base/status.h"

namespace hearth::server {
namespace {

// Columns that ReadBareJob reads, in its order.
constexpr char kSelectJob[] =
    "SELECT number, kind, state, spec, report, error, create_ns, start_ns, "
    "end_ns, last_sequence, priority, waiting_reason, sweep, trial, replica, "
    "held, owner, trace_id FROM jobs ";

// Name of the kind in the contract: "train", "export-dataset".
std::string KindOf(const v1::JobSpec& spec) {
  const auto* kind = spec.GetReflection()->GetOneofFieldDescriptor(
      spec, spec.GetDescriptor()->oneof_decl(0));
  if (kind == nullptr) return "job";
  return absl::StrReplaceAll(kind->name(), {{"_", "-"}});
}

absl::Status UnknownJob(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no job \"", absl::Utf8SafeCEscape(id), "\""));
}

v1::JobEvent UnreadableEvent(int64_t sequence) {
  v1::JobEvent event;
  event.set_sequence(static_cast<uint64_t>(sequence));
  event.mutable_log()->set_severity(v1::LogLine::ERROR);
  event.mutable_log()->set_text("an event is damaged and cannot be shown");
  return event;
}

}  // namespace

int64_t JobRows::NowNanoseconds() const {
  return absl::ToUnixNanos(clock_.Now());
}

template <typename Message>
absl::Status JobRows::Parse(const std::string& bytes, Message& message) const {
  if (message.ParseFromString(bytes)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(database_.path(), ": a damaged ", message.GetTypeName()));
}

absl::StatusOr<std::string> JobRows::Insert(const std::string& request_id,
                                            const v1::JobSpec& spec,
                                            int priority,
                                            const std::optional<TrialOf>& trial,
                                            const JobOrigin& origin) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("INSERT INTO jobs (kind, state, request_id, spec, "
                        "create_ns, priority, sweep, trial, replica, owner, "
                        "trace_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
                        "?10, ?11)"));
  statement.BindText(1, KindOf(spec)).Bind(2, v1::QUEUED);
  if (!request_id.empty()) statement.BindText(3, request_id);
  statement.BindBlob(4, spec.SerializeAsString()).Bind(5, NowNanoseconds());
  statement.Bind(6, priority);
  if (trial.has_value()) statement.Bind(7, trial->sweep);
  statement.Bind(8, trial.has_value() ? trial->trial : 0);
  statement.Bind(9, trial.has_value() ? trial->replica : 0);
  statement.BindText(10, origin.owner).BindText(11, origin.trace_id);
  HEARTH_RETURN_IF_ERROR(statement.Run());
  const int64_t number = database_.LastInsertRow();
  HEARTH_RETURN_IF_ERROR(AddUses(number, spec));
  return MakeJobId(KindOf(spec), number);
}

// Triggers delete the uses of a job when it ends or is deleted.
absl::Status JobRows::IndexUses() {
  HEARTH_RETURN_IF_ERROR(database_.Execute(R"sql(
PRAGMA temp_store = MEMORY;
CREATE TEMP TABLE IF NOT EXISTS job_uses (
  job  INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (job, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS temp.users ON job_uses (name, job);
CREATE TEMP TRIGGER IF NOT EXISTS user_ended AFTER UPDATE OF state ON main.jobs
WHEN new.state NOT IN (1, 2, 3, 7) BEGIN
  DELETE FROM job_uses WHERE job = new.number;
END;
CREATE TEMP TRIGGER IF NOT EXISTS user_deleted AFTER DELETE ON main.jobs BEGIN
  DELETE FROM job_uses WHERE job = old.number;
END;
)sql"));
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, ReadUnended());
  for (const v1::Job& job : jobs) {
    HEARTH_RETURN_IF_ERROR(AddUses(JobNumber(job.id()), job.spec()));
  }
  return absl::OkStatus();
}

absl::Status JobRows::AddUses(int64_t number, const v1::JobSpec& spec) {
  for (const std::string& name : UsesOf(spec)) {
    HEARTH_ASSIGN_OR_RETURN(
        Statement insert,
        database_.Prepare("INSERT OR IGNORE INTO job_uses (job, name) "
                          "VALUES (?1, ?2)"));
    HEARTH_RETURN_IF_ERROR(insert.Bind(1, number).BindText(2, name).Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JobRows::FindUser(const std::string& name) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT kind, number FROM job_uses JOIN jobs ON number "
                        "= job WHERE name = ?1 ORDER BY job LIMIT 1"));
  HEARTH_ASSIGN_OR_RETURN(const bool row, statement.BindText(1, name).Step());
  if (!row) return std::string();
  return MakeJobId(statement.Bytes(0), statement.Int64(1));
}

absl::StatusOr<int64_t> JobRows::CountUnendedOf(const std::string& owner) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT jobs FROM unended_jobs WHERE owner = ?1"));
  HEARTH_RETURN_IF_ERROR(statement.BindText(1, owner).Step().status());
  return statement.Int64(0);
}

absl::Status JobRows::CheckFree(const v1::Job& job) {
  const int64_t number = JobNumber(job.id());
  if (number <= 0 || MakeJobId(KindOf(job.spec()), number) != job.id() ||
      !v1::JobState_IsValid(job.state()) ||
      job.state() == v1::JOB_STATE_UNSPECIFIED) {
    return absl::DataLossError(absl::StrCat("\"",
                                            absl::Utf8SafeCEscape(job.id()),
                                            "\" is not the id of such a job"));
  }
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT kind FROM jobs WHERE number = ?1"));
  HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Bind(1, number).Step());
  if (!row) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("it has the same number as ",
                   MakeJobId(statement.Bytes(0), number), " in the database"));
}

absl::Status JobRows::InsertAgain(const v1::Job& job,
                                  const std::string& request_id) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(
          "INSERT INTO jobs (number, kind, state, request_id, spec, report, "
          "error, create_ns, start_ns, end_ns, last_sequence, priority, owner, "
          "trace_id) VALUES (?1, ?2, ?3, CASE WHEN EXISTS (SELECT * FROM jobs "
          "WHERE "
          "request_id = ?4) THEN NULL ELSE ?4 END, ?5, ?6, ?7, ?8, ?9, ?10, "
          "?11, ?12, ?13, ?14)"));
  statement.Bind(1, JobNumber(job.id())).BindText(2, KindOf(job.spec()));
  statement.Bind(3, job.state());
  if (!request_id.empty()) statement.BindText(4, request_id);
  statement.BindBlob(5, job.spec().SerializeAsString());
  if (job.has_report()) {
    statement.BindBlob(6, job.report().SerializeAsString());
  }
  if (job.has_error()) statement.BindBlob(7, job.error().SerializeAsString());
  statement.Bind(8, NanosecondsOf(job.create_time()));
  if (job.has_start_time()) {
    statement.Bind(9, NanosecondsOf(job.start_time()));
  }
  if (job.has_end_time()) statement.Bind(10, NanosecondsOf(job.end_time()));
  statement.Bind(11, static_cast<int64_t>(job.last_sequence()));
  statement.Bind(12, job.priority()).BindText(13, job.owner());
  return statement.BindText(14, job.trace_id()).Run();
}

// Nothing is written where nothing changes, so that a start needs no space.
// SQLite keeps the greatest number that a table with AUTOINCREMENT ever had in
// a row of sqlite_sequence, which exists from the first insertion on.
absl::Status JobRows::ReserveNumbers(int64_t up_to) {
  for (const char* sql :
       {"INSERT INTO sqlite_sequence (name, seq) SELECT 'jobs', ?1 WHERE "
        "?1 > 0 AND NOT EXISTS (SELECT * FROM sqlite_sequence WHERE name = "
        "'jobs')",
        "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'jobs' AND "
        "seq < ?1"}) {
    HEARTH_ASSIGN_OR_RETURN(Statement statement, database_.Prepare(sql));
    HEARTH_RETURN_IF_ERROR(statement.Bind(1, up_to).Run());
  }
  return absl::OkStatus();
}

absl::Status JobRows::AddEvent(const std::string& id, v1::JobEvent event) {
  int64_t sequence = 0;
  {
    HEARTH_ASSIGN_OR_RETURN(
        Statement next,
        database_.Prepare("UPDATE jobs SET last_sequence = last_sequence + 1 "
                          "WHERE number = ?1 RETURNING last_sequence"));
    next.Bind(1, JobNumber(id));
    HEARTH_RETURN_IF_ERROR(next.Step().status());
    sequence = next.Int64(0);
    HEARTH_RETURN_IF_ERROR(next.Run());
  }
  event.set_sequence(static_cast<uint64_t>(sequence));
  *event.mutable_time() = TimestampOf(NowNanoseconds());
  HEARTH_ASSIGN_OR_RETURN(
      Statement insert,
      database_.Prepare("INSERT INTO events (job, sequence, is_epoch, event) "
                        "VALUES (?1, ?2, ?3, ?4)"));
  insert.Bind(1, JobNumber(id)).Bind(2, sequence).Bind(3, event.has_epoch());
  HEARTH_RETURN_IF_ERROR(insert.BindBlob(4, event.SerializeAsString()).Run());
  if (sequence % std::max<int64_t>(events_kept_ / 10, 1) != 0) {
    return absl::OkStatus();
  }
  return PruneEvents(JobNumber(id), sequence - events_kept_);
}

absl::Status JobRows::PruneEvents(int64_t number, int64_t up_to) {
  std::vector<int64_t> pruned;
  {
    HEARTH_ASSIGN_OR_RETURN(
        Statement candidates,
        database_.Prepare("SELECT sequence, event FROM events WHERE job = ?1 "
                          "AND sequence <= ?2 AND NOT is_epoch"));
    candidates.Bind(1, number).Bind(2, up_to);
    while (true) {
      HEARTH_ASSIGN_OR_RETURN(const bool row, candidates.Step());
      if (!row) break;
      v1::JobEvent event;
      if (event.ParseFromString(candidates.Bytes(1)) && event.has_state()) {
        continue;
      }
      pruned.push_back(candidates.Int64(0));
    }
  }
  for (const int64_t sequence : pruned) {
    HEARTH_ASSIGN_OR_RETURN(
        Statement prune,
        database_.Prepare(
            "DELETE FROM events WHERE job = ?1 AND sequence = ?2"));
    HEARTH_RETURN_IF_ERROR(prune.Bind(1, number).Bind(2, sequence).Run());
  }
  return absl::OkStatus();
}

absl::Status JobRows::SkipSequences(const std::string& id, uint64_t count) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("UPDATE jobs SET last_sequence = last_sequence + ?2 "
                        "WHERE number = ?1"));
  statement.Bind(1, JobNumber(id)).Bind(2, static_cast<int64_t>(count));
  return statement.Run();
}

absl::Status JobRows::Move(const std::string& id, const StateUpdate& update) {
  HEARTH_ASSIGN_OR_RETURN(const JobProgress progress, ReadProgress(id));
  if (!MayFollow(progress.state, update.state)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", id, " is ", v1::JobState_Name(progress.state),
        ", so it cannot become ", v1::JobState_Name(update.state)));
  }
  HEARTH_RETURN_IF_ERROR(UpdateState(id, update));
  v1::JobEvent event;
  event.mutable_state()->set_state(update.state);
  if (update.error.has_value()) {
    *event.mutable_state()->mutable_error() = *update.error;
  }
  event.mutable_state()->set_waiting_reason(update.waiting_reason);
  return AddEvent(id, std::move(event));
}

absl::Status JobRows::UpdateState(const std::string& id,
                                  const StateUpdate& update) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("UPDATE jobs SET state = ?2, error = ?3, report = ?4, "
                        "start_ns = coalesce(start_ns, ?5), end_ns = ?6, "
                        "waiting_reason = ?7 WHERE number = ?1"));
  const int64_t now = NowNanoseconds();
  statement.Bind(1, JobNumber(id)).Bind(2, update.state);
  if (update.error.has_value()) {
    statement.BindBlob(3, update.error->SerializeAsString());
  }
  if (update.report.has_value()) {
    statement.BindBlob(4, update.report->SerializeAsString());
  }
  if (update.state == v1::PREPARING) statement.Bind(5, now);
  if (HasEnded(update.state)) statement.Bind(6, now);
  statement.BindText(7, update.waiting_reason);
  return statement.Run();
}

absl::Status JobRows::SetSpec(const std::string& id, const v1::JobSpec& spec) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement update,
      database_.Prepare("UPDATE jobs SET spec = ?2 WHERE number = ?1"));
  update.Bind(1, JobNumber(id));
  return update.BindBlob(2, spec.SerializeAsString()).Run();
}

absl::Status JobRows::Requeue(const v1::ResumeJobRequest& request,
                              const v1::JobSpec& spec) {
  StateUpdate queued;
  queued.state = v1::QUEUED;
  HEARTH_RETURN_IF_ERROR(Move(request.id(), queued));
  HEARTH_ASSIGN_OR_RETURN(
      Statement update,
      database_.Prepare("UPDATE jobs SET cancel_requested = 0, "
                        "interruptions = 0, held = 0 WHERE number = ?1"));
  HEARTH_RETURN_IF_ERROR(update.Bind(1, JobNumber(request.id())).Run());
  HEARTH_RETURN_IF_ERROR(SetSpec(request.id(), spec));
  HEARTH_RETURN_IF_ERROR(AddUses(JobNumber(request.id()), spec));
  if (request.request_id().empty()) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(
      Statement insert,
      database_.Prepare("INSERT INTO resumes (request_id, job, request) "
                        "VALUES (?1, ?2, ?3)"));
  insert.BindText(1, request.request_id()).Bind(2, JobNumber(request.id()));
  return insert.BindBlob(3, request.SerializeAsString()).Run();
}

absl::StatusOr<std::optional<v1::ResumeJobRequest>> JobRows::FindResume(
    const std::string& request_id) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT request FROM resumes WHERE request_id = ?1"));
  statement.BindText(1, request_id);
  HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return std::nullopt;
  v1::ResumeJobRequest request;
  HEARTH_RETURN_IF_ERROR(Parse(statement.Bytes(0), request));
  return request;
}

absl::Status JobRows::SetCancelRequested(const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(
          "UPDATE jobs SET cancel_requested = 1 WHERE number = ?1"));
  return statement.Bind(1, JobNumber(id)).Run();
}

absl::Status JobRows::SetHeld(const std::string& id, bool held) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("UPDATE jobs SET held = ?2 WHERE number = ?1"));
  return statement.Bind(1, JobNumber(id)).Bind(2, held ? 1 : 0).Run();
}

absl::Status JobRows::SetInterruptions(const std::string& id,
                                       int interruptions) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("UPDATE jobs SET interruptions = ?2 "
                        "WHERE number = ?1 AND interruptions <> ?2"));
  return statement.Bind(1, JobNumber(id)).Bind(2, interruptions).Run();
}

absl::Status JobRows::Delete(const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("DELETE FROM jobs WHERE number = ?1"));
  return statement.Bind(1, JobNumber(id)).Run();
}

absl::StatusOr<JobProgress> JobRows::ReadProgress(const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(
          "SELECT kind, state, last_sequence FROM jobs WHERE number = ?1"));
  statement.Bind(1, JobNumber(id));
  HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row || MakeJobId(statement.Bytes(0), JobNumber(id)) != id) {
    return UnknownJob(id);
  }
  return JobProgress{
      .state = static_cast<v1::JobState>(statement.Int64(1)),
      .last_sequence = static_cast<uint64_t>(statement.Int64(2))};
}

absl::StatusOr<v1::Job> JobRows::Read(const std::string& id) {
  HEARTH_RETURN_IF_ERROR(ReadProgress(id).status());
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(absl::StrCat(kSelectJob, "WHERE number = ?1")));
  statement.Bind(1, JobNumber(id));
  HEARTH_RETURN_IF_ERROR(statement.Step().status());
  return ReadJob(statement);
}

absl::StatusOr<std::string> JobRows::ReadOwner(const std::string& id) {
  HEARTH_RETURN_IF_ERROR(ReadProgress(id).status());
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT owner FROM jobs WHERE number = ?1"));
  HEARTH_RETURN_IF_ERROR(statement.Bind(1, JobNumber(id)).Step().status());
  return statement.Bytes(0);
}

absl::StatusOr<std::string> JobRows::ReadRequestId(const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT request_id FROM jobs WHERE number = ?1"));
  HEARTH_RETURN_IF_ERROR(statement.Bind(1, JobNumber(id)).Step().status());
  return statement.Bytes(0);
}

absl::StatusOr<std::vector<StoredJob>> JobRows::ReadAll() {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT number, kind, coalesce(end_ns, create_ns) "
                        "FROM jobs"));
  std::vector<StoredJob> jobs;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return jobs;
    jobs.push_back({.id = MakeJobId(statement.Bytes(1), statement.Int64(0)),
                    .changed = absl::FromUnixNanos(statement.Int64(2))});
  }
}

absl::StatusOr<std::vector<std::string>> JobRows::SetAsideDamaged() {
  std::map<int64_t, std::string> reasons;
  {
    HEARTH_ASSIGN_OR_RETURN(Statement statement, database_.Prepare(kSelectJob));
    while (true) {
      HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
      if (!row) break;
      const absl::Status status = CheckRow(statement);
      if (!status.ok()) {
        reasons[statement.Int64(0)] = std::string(status.message());
      }
    }
  }
  std::vector<std::string> texts;
  for (const auto& [number, reason] : reasons) {
    HEARTH_RETURN_IF_ERROR(SetAside(number, reason));
    texts.push_back(absl::StrCat("job number ", number, ": ", reason));
  }
  return texts;
}

absl::Status JobRows::CheckRow(const Statement& row) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, ReadBareJob(row));
  if (!v1::JobState_IsValid(job.state()) ||
      job.state() == v1::JOB_STATE_UNSPECIFIED) {
    return absl::DataLossError(
        absl::StrCat(database_.path(), ": ", job.state(), " is not a state"));
  }
  if (KindOf(job.spec()) == row.Bytes(1)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(database_.path(), ": the spec of ",
                                          job.id(), " is of another kind"));
}

absl::Status JobRows::SetAside(int64_t number, const std::string& reason) {
  {
    HEARTH_ASSIGN_OR_RETURN(
        Statement copy,
        database_.Prepare(
            "INSERT INTO damaged_rows SELECT ?2, number, kind, state, "
            "request_id, spec, report, error, create_ns, start_ns, end_ns "
            "FROM jobs WHERE number = ?1"));
    HEARTH_RETURN_IF_ERROR(copy.Bind(1, number).BindText(2, reason).Run());
  }
  HEARTH_ASSIGN_OR_RETURN(
      Statement remove,
      database_.Prepare("DELETE FROM jobs WHERE number = ?1"));
  return remove.Bind(1, number).Run();
}

absl::StatusOr<int64_t> JobRows::CountDamaged() {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT COUNT(*) FROM damaged_rows"));
  HEARTH_RETURN_IF_ERROR(statement.Step().status());
  return statement.Int64(0);
}

absl::StatusOr<std::optional<v1::Job>> JobRows::FindRequest(
    const std::string& request_id) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(absl::StrCat(kSelectJob, "WHERE request_id = ?1")));
  statement.BindText(1, request_id);
  HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return std::nullopt;
  return ReadJob(statement);
}

absl::StatusOr<v1::Job> JobRows::ReadBareJob(const Statement& row) {
  v1::Job job;
  job.set_id(MakeJobId(row.Bytes(1), row.Int64(0)));
  job.set_state(static_cast<v1::JobState>(row.Int64(2)));
  HEARTH_RETURN_IF_ERROR(Parse(row.Bytes(3), *job.mutable_spec()));
  if (!row.IsNull(4)) {
    HEARTH_RETURN_IF_ERROR(Parse(row.Bytes(4), *job.mutable_report()));
  }
  if (!row.IsNull(5)) {
    HEARTH_RETURN_IF_ERROR(Parse(row.Bytes(5), *job.mutable_error()));
  }
  *job.mutable_create_time() = TimestampOf(row.Int64(6));
  if (!row.IsNull(7)) *job.mutable_start_time() = TimestampOf(row.Int64(7));
  if (!row.IsNull(8)) *job.mutable_end_time() = TimestampOf(row.Int64(8));
  job.set_last_sequence(static_cast<uint64_t>(row.Int64(9)));
  job.set_priority(static_cast<int32_t>(row.Int64(10)));
  job.set_waiting_reason(row.Bytes(11));
  if (!row.IsNull(12)) {
    job.set_sweep(MakeJobId("sweep", row.Int64(12)));
    job.set_trial(static_cast<uint32_t>(row.Int64(13)));
    job.set_replica(static_cast<uint32_t>(row.Int64(14)));
  }
  job.set_held(row.Int64(15) != 0);
  job.set_owner(row.Bytes(16));
  job.set_trace_id(row.Bytes(17));
  return job;
}

absl::StatusOr<v1::Job> JobRows::ReadJob(const Statement& row) {
  HEARTH_ASSIGN_OR_RETURN(v1::Job job, ReadBareJob(row));
  if (!job.has_start_time()) return job;
  // Reports of earlier versions contain their epochs.
  if (job.spec().has_train() && job.report().train().epochs().empty()) {
    HEARTH_RETURN_IF_ERROR(
        ReadEpochs(row.Int64(0),
                   *job.mutable_report()->mutable_train()->mutable_epochs()));
  } else if (job.spec().has_feed()) {
    HEARTH_RETURN_IF_ERROR(ReadEpochs(
        row.Int64(0), *job.mutable_report()->mutable_feed()->mutable_epochs()));
  }
  return job;
}

absl::StatusOr<bool> JobRows::AddEpoch(const std::string& id,
                                       const v1::EpochReport& epoch) {
  HEARTH_ASSIGN_OR_RETURN(const uint32_t last, LastEpoch(id));
  if (epoch.epoch() <= last) return false;
  v1::JobEvent event;
  *event.mutable_epoch() = epoch;
  HEARTH_RETURN_IF_ERROR(AddEvent(id, std::move(event)));
  return true;
}

absl::StatusOr<uint32_t> JobRows::LastEpoch(const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT event FROM events WHERE job = ?1 AND is_epoch "
                        "ORDER BY sequence DESC LIMIT 1"));
  statement.Bind(1, JobNumber(id));
  HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return 0;
  v1::JobEvent event;
  HEARTH_RETURN_IF_ERROR(Parse(statement.Bytes(0), event));
  return event.epoch().epoch();
}

absl::Status JobRows::ReadEpochs(
    int64_t number,
    google::protobuf::RepeatedPtrField<v1::EpochReport>& epochs) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT event FROM events WHERE job = ?1 AND is_epoch "
                        "ORDER BY sequence"));
  statement.Bind(1, number);
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return absl::OkStatus();
    v1::JobEvent event;
    // ReadEvents reports events that cannot be read.
    if (!event.ParseFromString(statement.Bytes(0))) continue;
    epochs.Add()->Swap(event.mutable_epoch());
  }
}

absl::StatusOr<std::vector<int64_t>> JobRows::NumbersBelow(
    int64_t below, std::optional<v1::JobState> state, int limit) {
  HEARTH_ASSIGN_OR_RETURN(Statement statement,
                          database_.Prepare(absl::StrCat(
                              "SELECT number FROM jobs WHERE number < ?1 ",
                              state.has_value() ? "AND state = ?3 " : "",
                              "ORDER BY number DESC LIMIT ?2")));
  statement.Bind(1, below).Bind(2, limit);
  if (state.has_value()) statement.Bind(3, *state);
  std::vector<int64_t> numbers;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return numbers;
    numbers.push_back(statement.Int64(0));
  }
}

// Reads state by state, since each has an index of its numbers: jobs of other
// states are not read, however many there are.
absl::StatusOr<std::vector<v1::Job>> JobRows::ReadBelow(
    int64_t below, const std::vector<v1::JobState>& states, int limit,
    size_t max_bytes) {
  std::vector<int64_t> numbers;
  if (states.empty()) {
    HEARTH_ASSIGN_OR_RETURN(numbers, NumbersBelow(below, std::nullopt, limit));
  }
  for (const v1::JobState state : std::set(states.begin(), states.end())) {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<int64_t> of_state,
                            NumbersBelow(below, state, limit));
    numbers.insert(numbers.end(), of_state.begin(), of_state.end());
  }
  std::sort(numbers.begin(), numbers.end(), std::greater<>());
  if (numbers.size() > static_cast<size_t>(limit)) {
    numbers.resize(static_cast<size_t>(limit));
  }
  std::vector<v1::Job> jobs;
  size_t bytes = 0;
  for (const int64_t number : numbers) {
    HEARTH_ASSIGN_OR_RETURN(
        Statement statement,
        database_.Prepare(absl::StrCat(kSelectJob, "WHERE number = ?1")));
    HEARTH_RETURN_IF_ERROR(statement.Bind(1, number).Step().status());
    HEARTH_ASSIGN_OR_RETURN(v1::Job job, ReadJob(statement));
    bytes += job.ByteSizeLong();
    if (!jobs.empty() && bytes > max_bytes) return jobs;
    jobs.push_back(std::move(job));
  }
  return jobs;
}

absl::StatusOr<std::vector<v1::Job>> JobRows::ReadNewest(
    const std::vector<v1::JobState>& states, int limit, bool outside_sweeps) {
  std::vector<v1::Job> jobs;
  for (const v1::JobState state : std::set(states.begin(), states.end())) {
    HEARTH_ASSIGN_OR_RETURN(
        Statement statement,
        database_.Prepare(absl::StrCat(
            kSelectJob,
            "WHERE number IN (SELECT number FROM jobs WHERE state = ?1 ORDER "
            "BY number DESC LIMIT ?3) ",
            outside_sweeps ? "AND sweep IS NULL " : "",
            "ORDER BY number DESC LIMIT ?2")));
    statement.Bind(1, state).Bind(2, limit);
    statement.Bind(3, outside_sweeps ? limit + kMostPassedOver : limit);
    while (true) {
      HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
      if (!row) break;
      HEARTH_ASSIGN_OR_RETURN(v1::Job job, ReadBareJob(statement));
      jobs.push_back(std::move(job));
    }
  }
  std::sort(jobs.begin(), jobs.end(), [](const v1::Job& a, const v1::Job& b) {
    return JobNumber(a.id()) > JobNumber(b.id());
  });
  if (jobs.size() > static_cast<size_t>(limit)) {
    jobs.resize(static_cast<size_t>(limit));
  }
  return jobs;
}

absl::StatusOr<std::vector<v1::JobEvent>> JobRows::ReadEvents(
    const std::string& id, uint64_t from, int limit) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT event, sequence FROM events WHERE job = ?1 "
                        "AND sequence >= ?2 ORDER BY sequence LIMIT ?3"));
  statement.Bind(1, JobNumber(id)).Bind(3, limit);
  statement.Bind(2, static_cast<int64_t>(std::min<uint64_t>(from, INT64_MAX)));
  std::vector<v1::JobEvent> events;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return events;
    v1::JobEvent& event = events.emplace_back();
    if (!event.ParseFromString(statement.Bytes(0))) {
      event = UnreadableEvent(statement.Int64(1));
    }
  }
}

absl::StatusOr<std::vector<v1::JobEvent>> JobRows::ReadTail(
    const std::string& id, int count) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT event, sequence FROM events WHERE job = ?1 "
                        "ORDER BY sequence DESC"));
  statement.Bind(1, JobNumber(id));
  std::vector<v1::JobEvent> events;
  while (static_cast<int>(events.size()) < count) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) break;
    v1::JobEvent event;
    if (!event.ParseFromString(statement.Bytes(0))) {
      event = UnreadableEvent(statement.Int64(1));
    }
    if (!event.has_progress()) events.push_back(std::move(event));
  }
  std::reverse(events.begin(), events.end());
  return events;
}

absl::StatusOr<std::vector<v1::Job>> JobRows::ReadUnended() {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(absl::StrCat(
          kSelectJob, "WHERE state IN (?1, ?2, ?3, ?4) ORDER BY number")));
  statement.Bind(1, v1::QUEUED).Bind(2, v1::PREPARING).Bind(3, v1::RUNNING);
  statement.Bind(4, v1::WAITING);
  std::vector<v1::Job> jobs;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return jobs;
    HEARTH_ASSIGN_OR_RETURN(jobs.emplace_back(), ReadBareJob(statement));
  }
}

absl::StatusOr<std::vector<ActiveJob>> JobRows::ReadActive() {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT number, kind, cancel_requested, interruptions "
                        "FROM jobs WHERE state IN (?1, ?2) ORDER BY number"));
  statement.Bind(1, v1::PREPARING).Bind(2, v1::RUNNING);
  std::vector<ActiveJob> active;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return active;
    active.push_back({.id = MakeJobId(statement.Bytes(1), statement.Int64(0)),
                      .cancel_requested = statement.Int64(2) != 0,
                      .interruptions = static_cast<int>(statement.Int64(3))});
  }
}

absl::StatusOr<std::vector<std::string>> JobRows::ReadToBeCancelled() {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT number, kind FROM jobs WHERE state IN (?1, ?2) "
                        "AND cancel_requested ORDER BY number"));
  statement.Bind(1, v1::QUEUED).Bind(2, v1::WAITING);
  std::vector<std::string> ids;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return ids;
    ids.push_back(MakeJobId(statement.Bytes(1), statement.Int64(0)));
  }
}

absl::StatusOr<std::vector<v1::Job>> JobRows::ReadSweep(int64_t sweep) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare(absl::StrCat(
          kSelectJob, "WHERE sweep = ?1 ORDER BY trial, replica")));
  statement.Bind(1, sweep);
  std::vector<v1::Job> jobs;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return jobs;
    HEARTH_ASSIGN_OR_RETURN(jobs.emplace_back(), ReadBareJob(statement));
  }
}

absl::StatusOr<std::map<v1::JobState, int64_t>> JobRows::CountByState() {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database_.Prepare("SELECT state, jobs FROM job_counts"));
  std::map<v1::JobState, int64_t> counts;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return counts;
    counts[static_cast<v1::JobState>(statement.Int64(0))] = statement.Int64(1);
  }
}

}  // namespace hearth::server
