// A job that had not ended is queued again: its folder tells neither how far it
// came nor that anybody gave it up, and it goes on from its last checkpoint,
// which costs less than a result that nobody computes. A row wins over a copy,
// which is only written after it.
#include "server/storage/job_recovery.h"

#include <spdlog/spdlog.h>

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"
#include "server/storage/job_state.h"

namespace hearth::server {
namespace {

// Times of files lag behind the clock by up to a tick of the kernel.
constexpr absl::Duration kFileTimeLag = absl::Milliseconds(20);
// Sequence numbers left out where events were lost, so that no watcher has seen
// a number that is given out again.
constexpr uint64_t kSequenceGap = 1'000'000;

void Warn(std::string text, std::vector<std::string>& warnings) {
  spdlog::error("{}", text);
  warnings.push_back(std::move(text));
}

absl::StatusOr<std::unique_ptr<Database>> OpenSound(const std::string& path,
                                                    const std::string& vfs) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                          Database::Open(path, vfs));
  HEARTH_RETURN_IF_ERROR(database->CheckSound());
  return database;
}

absl::Status SetAsideFile(io::FileSystem& files, const std::string& path,
                          const std::string& aside) {
  HEARTH_RETURN_IF_ERROR(files.Rename(path, aside));
  // SQLite finds the log of the file aside by its name.
  for (const char* suffix : {"-wal", "-shm"}) {
    const absl::Status moved =
        files.Rename(absl::StrCat(path, suffix), absl::StrCat(aside, suffix));
    if (!absl::IsNotFound(moved)) HEARTH_RETURN_IF_ERROR(moved);
  }
  return files.SyncDirectory(io::ParentDirectory(path));
}

absl::Status AddLogEvent(JobRows& rows, const std::string& id,
                         const std::string& text) {
  v1::JobEvent event;
  event.mutable_log()->set_severity(v1::LogLine::WARNING);
  event.mutable_log()->set_text(text);
  return rows.AddEvent(id, std::move(event));
}

// Makes the row and the events of a job that only its folder knows.
absl::Status Adopt(JobRows& rows, JobFolders::Copy copy) {
  v1::Job& job = copy.job;
  std::string text = "the database had lost this job: its folder told of it";
  if (!HasEnded(job.state())) {
    job.set_state(v1::QUEUED);
    job.clear_report();
    job.clear_error();
    job.clear_end_time();
    job.clear_waiting_reason();
    job.set_last_sequence(job.last_sequence() + kSequenceGap);
    absl::StrAppend(&text, "; earlier events are lost");
  }
  HEARTH_RETURN_IF_ERROR(rows.InsertAgain(job, copy.request_id));
  HEARTH_RETURN_IF_ERROR(AddLogEvent(rows, job.id(), text));
  v1::JobEvent event;
  event.mutable_state()->set_state(job.state());
  if (job.has_error()) *event.mutable_state()->mutable_error() = job.error();
  return rows.AddEvent(job.id(), std::move(event));
}

class Adoption {
 public:
  Adoption(Database& database, JobRows& rows, JobFolders& folders,
           std::vector<std::string>& warnings)
      : database_(database),
        rows_(rows),
        folders_(folders),
        warnings_(warnings) {}

  absl::Status Run() {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            folders_.List());
    HEARTH_ASSIGN_OR_RETURN(const int64_t greatest,
                            folders_.GreatestNumber(names));
    HEARTH_ASSIGN_OR_RETURN(const std::vector<StoredJob> known,
                            rows_.ReadAll());
    for (const StoredJob& job : known) known_.insert(job.id);
    HEARTH_RETURN_IF_ERROR(AdoptUnknown(names, greatest));
    for (const StoredJob& job : known) {
      if (folders_.WrittenAt(job.id) + kFileTimeLag < job.changed) {
        Repair(job.id);
      }
    }
    if (adopted_ > 0) {
      Warn(absl::StrCat(adopted_,
                        adopted_ == 1
                            ? " job that the database did not have is"
                            : " jobs that the database did not have are",
                        " listed again from jobs/"),
           warnings_);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AdoptUnknown(const std::vector<std::string>& names,
                            int64_t greatest) {
    HEARTH_ASSIGN_OR_RETURN(const auto transaction,
                            Transaction::Begin(database_));
    HEARTH_RETURN_IF_ERROR(rows_.ReserveNumbers(greatest));
    for (const std::string& name : names) {
      if (!known_.contains(name)) HEARTH_RETURN_IF_ERROR(TakeIn(name));
    }
    return transaction->Commit();
  }

  absl::Status TakeIn(const std::string& name) {
    absl::StatusOr<JobFolders::Copy> copy = folders_.Read(name);
    absl::Status readable = copy.status();
    if (copy.ok() ? copy->is_deleted : folders_.WasNeverWritten(name)) {
      Leave(name, folders_.Remove(name));
      return absl::OkStatus();
    }
    if (copy.ok()) readable = rows_.CheckFree(copy->job);
    if (!readable.ok()) {
      const absl::StatusOr<std::string> path = folders_.SetAside(name);
      Leave(name, path.status());
      if (path.ok()) {
        Warn(absl::StrCat("jobs/", name, " belongs to no job and is now ",
                          *path, ": ", readable.message()),
             warnings_);
      }
      return absl::OkStatus();
    }
    HEARTH_RETURN_IF_ERROR(Adopt(rows_, *std::move(copy)));
    ++adopted_;
    return absl::OkStatus();
  }

  // A folder that cannot be moved or removed is in nobody's way.
  void Leave(const std::string& name, const absl::Status& status) {
    if (status.ok()) return;
    Warn(absl::StrCat("jobs/", name,
                      " belongs to no job and stays: ", status.message()),
         warnings_);
  }

  // The row is there, so a start does not fail for want of a copy.
  void Repair(const std::string& id) {
    const absl::StatusOr<v1::Job> job = rows_.Read(id);
    absl::Status status = job.status();
    if (status.ok()) {
      const auto request_id = rows_.ReadRequestId(id);
      status = folders_.Write(*job, request_id.value_or(""));
    }
    if (!status.ok()) {
      spdlog::warn("{}: no copy in its folder: {}", id, status.ToString());
    }
  }

  Database& database_;
  JobRows& rows_;
  JobFolders& folders_;
  std::vector<std::string>& warnings_;
  absl::flat_hash_set<std::string> known_;
  int adopted_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> OpenJobDatabase(
    io::FileSystem& files, const std::string& path, const std::string& vfs,
    const Clock& clock, std::vector<std::string>& warnings) {
  absl::StatusOr<std::unique_ptr<Database>> database = OpenSound(path, vfs);
  if (!absl::IsDataLoss(database.status())) return database;
  const std::string aside = absl::StrCat(
      path, ".damaged-",
      absl::FormatTime("%Y%m%dT%H%M%SZ", clock.Now(), absl::UTCTimeZone()));
  HEARTH_RETURN_IF_ERROR(SetAsideFile(files, path, aside));
  Warn(absl::StrCat("the database of jobs is damaged and is now ", aside, " (",
                    database.status().message(), "); a new one is made"),
       warnings);
  return OpenSound(path, vfs);
}

absl::Status SetAsideDamagedRows(Database& database, JobRows& rows,
                                 std::vector<std::string>& warnings) {
  HEARTH_ASSIGN_OR_RETURN(const auto transaction, Transaction::Begin(database));
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> reasons,
                          rows.SetAsideDamaged());
  for (const std::string& reason : reasons) {
    spdlog::error("a row of the database is set aside: {}", reason);
  }
  HEARTH_ASSIGN_OR_RETURN(const int64_t damaged, rows.CountDamaged());
  if (damaged > 0) {
    warnings.push_back(absl::StrCat(
        damaged, damaged == 1 ? " row" : " rows", " of ", database.path(),
        " could not be read; see its table damaged_rows"));
  }
  return transaction->Commit();
}

absl::Status AdoptFolders(Database& database, JobRows& rows,
                          JobFolders& folders,
                          std::vector<std::string>& warnings) {
  return Adoption(database, rows, folders, warnings).Run();
}

}  // namespace hearth::server
