#include "server/storage/schema.h"

#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"

namespace hearth::server {
namespace {

// Entry N brings the tables from version N to version N + 1. Entries are never
// changed once a daemon has been released with them: a new version is a new
// entry at the end.
constexpr const char* kMigrations[] = {
    R"sql(
CREATE TABLE jobs (
  number           INTEGER PRIMARY KEY AUTOINCREMENT,
  kind             TEXT NOT NULL,
  state            INTEGER NOT NULL,
  request_id       TEXT UNIQUE,
  spec             BLOB NOT NULL,
  report           BLOB,
  error            BLOB,
  create_ns        INTEGER NOT NULL,
  start_ns         INTEGER,
  end_ns           INTEGER,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  last_sequence    INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE TABLE events (
  job      INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,
  is_epoch INTEGER NOT NULL,
  event    BLOB NOT NULL,
  PRIMARY KEY (job, sequence)
) WITHOUT ROWID;
CREATE INDEX epoch_events ON events (job, sequence) WHERE is_epoch;
)sql",
    // interruptions: times in a row that the daemon died with the job running.
    // waiting_reason: what the job waits for; empty = nothing.
    R"sql(
ALTER TABLE jobs ADD COLUMN interruptions INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN waiting_reason TEXT NOT NULL DEFAULT '';
)sql",
    // Requests that resumed a job, by their ids.
    R"sql(
CREATE TABLE resumes (
  request_id TEXT PRIMARY KEY,
  job        INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  request    BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX resumes_of_job ON resumes (job);
)sql",
    // Deletions by the ids of their requests.
    R"sql(
CREATE TABLE deletions (
  request_id TEXT PRIMARY KEY,
  target     TEXT NOT NULL,
  time_ns    INTEGER NOT NULL,
  done       INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
)sql",
    // job_counts: number of jobs in each state that has ever had any, kept by
    // triggers, so that nobody counts rows. damaged_rows: rows of jobs that
    // could not be read, as they were.
    R"sql(
CREATE TABLE job_counts (
  state INTEGER PRIMARY KEY,
  jobs  INTEGER NOT NULL
);
INSERT INTO job_counts SELECT state, COUNT(*) FROM jobs GROUP BY state;
CREATE TRIGGER job_inserted AFTER INSERT ON jobs BEGIN
  INSERT INTO job_counts VALUES (new.state, 1)
    ON CONFLICT (state) DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER job_deleted AFTER DELETE ON jobs BEGIN
  UPDATE job_counts SET jobs = jobs - 1 WHERE state = old.state;
END;
CREATE TRIGGER job_moved AFTER UPDATE OF state ON jobs BEGIN
  UPDATE job_counts SET jobs = jobs - 1 WHERE state = old.state;
  INSERT INTO job_counts VALUES (new.state, 1)
    ON CONFLICT (state) DO UPDATE SET jobs = jobs + 1;
END;
CREATE TABLE damaged_rows (
  reason TEXT NOT NULL,
  number, kind, state, request_id, spec, report, error, create_ns, start_ns,
  end_ns
);
)sql",
    // Sweeps, with the jobs of their trials. sweeps.sweep: a v1.Sweep without
    // trials. jobs.held: the job's sweep holds it back.
    R"sql(
CREATE TABLE sweeps (
  number        INTEGER PRIMARY KEY AUTOINCREMENT,
  request_id    TEXT UNIQUE,
  sweep         BLOB NOT NULL,
  last_sequence INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE sweep_events (
  sweep    INTEGER NOT NULL REFERENCES sweeps (number) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,
  event    BLOB NOT NULL,
  PRIMARY KEY (sweep, sequence)
) WITHOUT ROWID;
ALTER TABLE jobs ADD COLUMN sweep INTEGER;
ALTER TABLE jobs ADD COLUMN trial INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN replica INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_of_sweep ON jobs (sweep, trial, replica)
  WHERE sweep IS NOT NULL;
)sql",
    // jobs.owner: who submitted the job; empty = nobody was asked. tokens: of
    // secrets only the SHA-256; rows stay when their tokens are revoked.
    R"sql(
ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE TABLE tokens (
  name        TEXT PRIMARY KEY,
  role        INTEGER NOT NULL,
  hash        BLOB NOT NULL UNIQUE,
  create_ns   INTEGER NOT NULL,
  expire_ns   INTEGER,
  last_use_ns INTEGER,
  revoke_ns   INTEGER
) WITHOUT ROWID;
)sql",
    // jobs.trace_id: trace of the call that submitted the job; empty = none.
    R"sql(
ALTER TABLE jobs ADD COLUMN trace_id TEXT NOT NULL DEFAULT '';
)sql",
    // unended_jobs: number of jobs of each owner that have not ended, kept by
    // triggers. The states are QUEUED, PREPARING, RUNNING and WAITING.
    R"sql(
CREATE TABLE unended_jobs (
  owner TEXT PRIMARY KEY,
  jobs  INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO unended_jobs SELECT owner, COUNT(*) FROM jobs
  WHERE state IN (1, 2, 3, 7) GROUP BY owner;
CREATE TRIGGER unended_inserted AFTER INSERT ON jobs
WHEN new.state IN (1, 2, 3, 7) BEGIN
  INSERT INTO unended_jobs VALUES (new.owner, 1)
    ON CONFLICT (owner) DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER unended_deleted AFTER DELETE ON jobs
WHEN old.state IN (1, 2, 3, 7) BEGIN
  UPDATE unended_jobs SET jobs = jobs - 1 WHERE owner = old.owner;
END;
CREATE TRIGGER unended_moved AFTER UPDATE OF state ON jobs
WHEN (old.state IN (1, 2, 3, 7)) <> (new.state IN (1, 2, 3, 7)) BEGIN
  INSERT INTO unended_jobs VALUES (new.owner, 1)
    ON CONFLICT (owner) DO UPDATE
    SET jobs = jobs + iif(new.state IN (1, 2, 3, 7), 1, -1);
END;
)sql",
};

absl::StatusOr<int> ReadVersion(Database& database) {
  HEARTH_ASSIGN_OR_RETURN(Statement statement,
                          database.Prepare("PRAGMA user_version"));
  HEARTH_RETURN_IF_ERROR(statement.Step().status());
  return static_cast<int>(statement.Int64(0));
}

// Keeps the database as it is, beside itself.
absl::Status Keep(io::FileSystem& files, Database& database) {
  const std::string kept =
      absl::StrCat(database.path(), ".before-v", SchemaVersion());
  const std::string unfinished = absl::StrCat(kept, io::kTemporarySuffix);
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(unfinished));
  HEARTH_RETURN_IF_ERROR(
      Database::Copy(database.path(), unfinished, database.vfs()));
  HEARTH_RETURN_IF_ERROR(files.Rename(unfinished, kept));
  return files.SyncDirectory(io::ParentDirectory(kept));
}

absl::Status Migrate(Database& database, int from) {
  HEARTH_ASSIGN_OR_RETURN(const auto transaction, Transaction::Begin(database));
  HEARTH_RETURN_IF_ERROR(database.Execute(
      absl::StrCat(kMigrations[from], "PRAGMA user_version = ", from + 1)));
  return transaction->Commit();
}

}  // namespace

int SchemaVersion() { return static_cast<int>(std::size(kMigrations)); }

absl::Status UpdateSchema(io::FileSystem& files, Database& database) {
  HEARTH_ASSIGN_OR_RETURN(const int version, ReadVersion(database));
  if (version > SchemaVersion()) {
    return absl::FailedPreconditionError(
        absl::StrCat(database.path(), ": written by a newer hearthd (version ",
                     version, "; this one knows up to ", SchemaVersion(), ")"));
  }
  if (version > 0 && version < SchemaVersion()) {
    HEARTH_RETURN_IF_ERROR(Keep(files, database));
  }
  for (int from = version; from < SchemaVersion(); ++from) {
    HEARTH_RETURN_IF_ERROR(Migrate(database, from));
  }
  return absl::OkStatus();
}

}  // namespace hearth::server
