#include "server/storage/sweep_store.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "server/log.h"
#include "server/storage/job_rows.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"
#include "server/storage/sqlite.h"

namespace hearth::server {
namespace {

constexpr char kKind[] = "sweep";

// Number in "sweep-7"; 0, which no sweep has, for anything else.
int64_t SweepNumber(const std::string& id) {
  const int64_t number = JobNumber(id);
  return MakeJobId(kKind, number) == id ? number : 0;
}

absl::StatusOr<v1::Sweep> ReadSweep(const Statement& row,
                                    const Database& database) {
  v1::Sweep sweep;
  if (!sweep.ParseFromString(row.Bytes(1))) {
    return absl::DataLossError(absl::StrCat(
        database.path(), ": ", MakeJobId(kKind, row.Int64(0)), " is damaged"));
  }
  sweep.set_id(MakeJobId(kKind, row.Int64(0)));
  sweep.set_last_sequence(static_cast<uint64_t>(row.Int64(2)));
  return sweep;
}

absl::StatusOr<v1::Sweep> ReadSweep(Database& database, const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(
      Statement statement,
      database.Prepare("SELECT number, sweep, last_sequence FROM sweeps WHERE "
                       "number = ?1"));
  HEARTH_ASSIGN_OR_RETURN(const bool row,
                          statement.Bind(1, SweepNumber(id)).Step());
  if (row) return ReadSweep(statement, database);
  return absl::NotFoundError(
      absl::StrCat("there is no sweep \"", absl::Utf8SafeCEscape(id), "\""));
}

// `stored` as it may have been submitted: fields that the daemon sets are taken
// from `spec`.
v1::SweepSpec AsSubmitted(v1::SweepSpec stored, const v1::SweepSpec& spec) {
  stored.set_groups_data(spec.groups_data());
  stored.set_tests_best(spec.tests_best());
  stored.set_every_point(spec.every_point());
  return stored;
}

}  // namespace

bool HasEnded(v1::SweepState state) {
  return state == v1::SWEEP_DONE || state == v1::SWEEP_STOPPED;
}

absl::StatusOr<std::optional<v1::Sweep>> SweepStore::FindRequest(
    const std::string& request_id, const v1::SweepSpec& spec) {
  std::optional<v1::Sweep> found;
  if (request_id.empty()) return found;
  HEARTH_RETURN_IF_ERROR(jobs_.Transact(
      [&](Database& database, JobRows&, ChangedJobs&) -> absl::Status {
        found.reset();
        HEARTH_ASSIGN_OR_RETURN(
            Statement statement,
            database.Prepare("SELECT number, sweep, last_sequence FROM sweeps "
                             "WHERE request_id = ?1"));
        HEARTH_ASSIGN_OR_RETURN(const bool row,
                                statement.BindText(1, request_id).Step());
        if (!row) return absl::OkStatus();
        HEARTH_ASSIGN_OR_RETURN(found, ReadSweep(statement, database));
        return absl::OkStatus();
      }));
  if (found.has_value() && !google::protobuf::util::MessageDifferencer::Equals(
                               AsSubmitted(found->spec(), spec), spec)) {
    return absl::AlreadyExistsError(
        absl::StrCat("request_id \"", absl::Utf8SafeCEscape(request_id),
                     "\" was used for ", found->id(), " with another spec"));
  }
  return found;
}

absl::StatusOr<std::vector<std::string>> SweepStore::Add(
    const std::string& request_id, SweepStep& step) {
  std::vector<std::string> ids;
  *step.sweep.mutable_create_time() =
      TimestampOf(absl::ToUnixNanos(clock_.Now()));
  HEARTH_RETURN_IF_ERROR(
      jobs_.Transact([&](Database& database, JobRows& rows,
                         ChangedJobs& changed) -> absl::Status {
        {
          HEARTH_ASSIGN_OR_RETURN(
              Statement insert,
              database.Prepare("INSERT INTO sweeps (request_id, sweep) VALUES "
                               "(?1, ?2)"));
          if (!request_id.empty()) insert.BindText(1, request_id);
          HEARTH_RETURN_IF_ERROR(insert.BindBlob(2, "").Run());
        }
        step.sweep.set_id(MakeJobId(kKind, database.LastInsertRow()));
        return Store(database, rows, changed, step, ids);
      }));
  listener_(step.sweep.id());
  return ids;
}

absl::StatusOr<std::vector<std::string>> SweepStore::Commit(SweepStep& step) {
  std::vector<std::string> ids;
  HEARTH_RETURN_IF_ERROR(jobs_.Transact(
      [&](Database& database, JobRows& rows, ChangedJobs& changed) {
        return Store(database, rows, changed, step, ids);
      }));
  listener_(step.sweep.id());
  return ids;
}

absl::Status SweepStore::Store(Database& database, JobRows& rows,
                               ChangedJobs& changed, SweepStep& step,
                               std::vector<std::string>& ids) {
  const int64_t number = SweepNumber(step.sweep.id());
  const google::protobuf::Timestamp now =
      TimestampOf(absl::ToUnixNanos(clock_.Now()));
  ids.clear();
  for (const SweepStep::JobEpoch& epoch : step.epochs) {
    HEARTH_RETURN_IF_ERROR(rows.AddEpoch(epoch.job, epoch.report).status());
    changed.told.push_back(epoch.job);
  }
  for (const SweepStep::NewJob& job : step.new_jobs) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::string id,
        rows.Insert(
            "", job.spec, step.sweep.priority(),
            TrialOf{
                .sweep = number, .trial = job.trial, .replica = job.replica},
            {.owner = step.sweep.owner(), .trace_id = step.sweep.trace_id()}));
    v1::JobEvent event;
    event.mutable_state()->set_state(v1::QUEUED);
    HEARTH_RETURN_IF_ERROR(rows.AddEvent(id, std::move(event)));
    changed.added.push_back(id);
    ids.push_back(id);
  }
  for (const std::string& id : step.cancelled) {
    HEARTH_RETURN_IF_ERROR(rows.SetCancelRequested(id));
  }
  for (const std::string& id : step.held) {
    HEARTH_RETURN_IF_ERROR(rows.SetHeld(id, true));
  }
  for (const std::string& id : step.released) {
    HEARTH_RETURN_IF_ERROR(rows.SetHeld(id, false));
  }
  if (HasEnded(step.sweep.state()) && !step.sweep.has_end_time()) {
    *step.sweep.mutable_end_time() = now;
  }
  uint64_t sequence = 0;
  {
    HEARTH_ASSIGN_OR_RETURN(
        Statement update,
        database.Prepare(
            "UPDATE sweeps SET sweep = ?2, last_sequence = last_sequence + ?3 "
            "WHERE number = ?1 RETURNING last_sequence"));
    update.Bind(1, number).BindBlob(2, step.sweep.SerializeAsString());
    update.Bind(3, static_cast<int64_t>(step.events.size()));
    HEARTH_RETURN_IF_ERROR(update.Step().status());
    sequence = static_cast<uint64_t>(update.Int64(0)) - step.events.size();
    HEARTH_RETURN_IF_ERROR(update.Run());
  }
  for (v1::SweepEvent& event : step.events) {
    event.set_sequence(++sequence);
    *event.mutable_time() = now;
    HEARTH_ASSIGN_OR_RETURN(
        Statement insert,
        database.Prepare("INSERT INTO sweep_events (sweep, sequence, event) "
                         "VALUES (?1, ?2, ?3)"));
    insert.Bind(1, number).Bind(2, static_cast<int64_t>(sequence));
    HEARTH_RETURN_IF_ERROR(insert.BindBlob(3, event.SerializeAsString()).Run());
  }
  step.sweep.set_last_sequence(sequence);
  return absl::OkStatus();
}

absl::StatusOr<v1::Sweep> SweepStore::Get(const std::string& id) {
  v1::Sweep sweep;
  HEARTH_RETURN_IF_ERROR(jobs_.Transact(
      [&](Database& database, JobRows&, ChangedJobs&) -> absl::Status {
        HEARTH_ASSIGN_OR_RETURN(sweep, ReadSweep(database, id));
        return absl::OkStatus();
      }));
  return sweep;
}

absl::StatusOr<std::vector<v1::Sweep>> SweepStore::List(int64_t limit) {
  std::vector<v1::Sweep> sweeps;
  HEARTH_RETURN_IF_ERROR(jobs_.Transact(
      [&](Database& database, JobRows&, ChangedJobs&) -> absl::Status {
        sweeps.clear();
        HEARTH_ASSIGN_OR_RETURN(
            Statement statement,
            database.Prepare("SELECT number, sweep, last_sequence FROM sweeps "
                             "ORDER BY number DESC LIMIT ?1"));
        statement.Bind(1, limit);
        while (true) {
          HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
          if (!row) return absl::OkStatus();
          absl::StatusOr<v1::Sweep> sweep = ReadSweep(statement, database);
          if (sweep.ok()) {
            sweeps.push_back(*std::move(sweep));
          } else {
            LogError(sweep.status().ToString());
          }
        }
      }));
  return sweeps;
}

absl::StatusOr<SweepEventBatch> SweepStore::ReadEvents(const std::string& id,
                                                       uint64_t from,
                                                       int limit) {
  SweepEventBatch batch;
  HEARTH_RETURN_IF_ERROR(jobs_.Transact([&](Database& database, JobRows&,
                                            ChangedJobs&) -> absl::Status {
    batch = SweepEventBatch();
    HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, ReadSweep(database, id));
    HEARTH_ASSIGN_OR_RETURN(
        Statement statement,
        database.Prepare("SELECT event FROM sweep_events WHERE sweep = ?1 "
                         "AND sequence >= ?2 ORDER BY sequence LIMIT ?3"));
    statement.Bind(1, SweepNumber(id)).Bind(3, limit);
    statement.Bind(2,
                   static_cast<int64_t>(std::min<uint64_t>(from, INT64_MAX)));
    while (true) {
      HEARTH_ASSIGN_OR_RETURN(const bool row, statement.Step());
      if (!row) break;
      if (!batch.events.emplace_back().ParseFromString(statement.Bytes(0))) {
        return absl::DataLossError(
            absl::StrCat(database.path(), ": an event of ", id, " is damaged"));
      }
    }
    const uint64_t reached =
        batch.events.empty() ? from - 1 : batch.events.back().sequence();
    batch.is_last = reached >= sweep.last_sequence() && HasEnded(sweep.state());
    return absl::OkStatus();
  }));
  return batch;
}

absl::StatusOr<std::vector<v1::Job>> SweepStore::ReadJobs(
    const std::string& id) {
  std::vector<v1::Job> jobs;
  HEARTH_RETURN_IF_ERROR(jobs_.Transact(
      [&](Database&, JobRows& rows, ChangedJobs&) -> absl::Status {
        HEARTH_ASSIGN_OR_RETURN(jobs, rows.ReadSweep(SweepNumber(id)));
        return absl::OkStatus();
      }));
  return jobs;
}

absl::Status SweepStore::Delete(const std::string& id) {
  return jobs_.Transact(
      [&](Database& database, JobRows&, ChangedJobs&) -> absl::Status {
        HEARTH_RETURN_IF_ERROR(ReadSweep(database, id).status());
        HEARTH_ASSIGN_OR_RETURN(
            Statement statement,
            database.Prepare("DELETE FROM sweeps WHERE number = ?1"));
        return statement.Bind(1, SweepNumber(id)).Run();
      });
}

}  // namespace hearth::server
