#include "server/storage/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"

// After a failed sync, Linux regards unwritten pages as written, so that the
// next sync succeeds over a log with a gap. A recovery would stop at the gap
// and lose the commits after it. Bytes synced before or written afterwards are
// not affected, and SQLite writes a failed commit again; but lazy commits are
// in the log. So, before the next transaction, the log is copied into the file
// and begun again.

namespace hearth::server {

namespace {

// Time to wait for an operator's sqlite3 shell to release the file.
constexpr int kBusyTimeoutMs = 5000;
// Length of the log at which it is copied into the file.
constexpr int kMaxLogPages = 1000;
// Pages cached in memory, in KiB; other pages come from the system's page
// cache. Few, so that a daemon soon reaches its lasting memory: queries use
// indexes, and a transaction touches some ten pages.
constexpr int kPageCacheKib = 512;

absl::StatusCode CodeOf(int result) {
  switch (result & 0xff) {
    case SQLITE_NOMEM:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
      return absl::StatusCode::kUnavailable;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return absl::StatusCode::kPermissionDenied;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Status of the last call on `handle`, which is null if there was no memory for
// it.
absl::Status SqliteStatus(int result, sqlite3* handle,
                          const std::string& path) {
  const std::string message =
      absl::StrCat(path, ": ", handle ? sqlite3_errmsg(handle) : "no memory");
  const int kind = result & 0xff;
  // The files next to the database are created, and grow, when it is opened and
  // read.
  const int error =
      handle != nullptr && (kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN)
          ? sqlite3_system_errno(handle)
          : 0;
  if (kind == SQLITE_FULL || error == ENOSPC || error == EDQUOT) {
    return WaitForDiskSpace(absl::ResourceExhaustedError(message));
  }
  return absl::Status(
      error == EIO ? absl::StatusCode::kUnavailable : CodeOf(result), message);
}

using Connection = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

absl::StatusOr<Connection> Connect(const std::string& path,
                                   const std::string& vfs) {
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(
      path.c_str(), &handle,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
      vfs.empty() ? nullptr : vfs.c_str());
  Connection connection(handle, sqlite3_close);
  if (result != SQLITE_OK) {
    return SqliteStatus(result, handle, path);
  }
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  return connection;
}

// Copies all pages of the database `from` to `to`, whose path is for messages.
absl::Status CopyPages(sqlite3* from, sqlite3* to, const std::string& path) {
  sqlite3_backup* copy = sqlite3_backup_init(to, "main", from, "main");
  if (copy != nullptr) {
    sqlite3_backup_step(copy, -1);
    sqlite3_backup_finish(copy);
  }
  const int result = sqlite3_errcode(to);
  if (result == SQLITE_OK) return absl::OkStatus();
  return SqliteStatus(result, to, path);
}

}  // namespace

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Statement::Statement(Statement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)),
      path_(other.path_) {}

Statement& Statement::Bind(int parameter, int64_t value) {
  sqlite3_bind_int64(statement_, parameter, value);
  return *this;
}

Statement& Statement::BindText(int parameter, absl::string_view value) {
  sqlite3_bind_text64(statement_, parameter, value.data(), value.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::BindBlob(int parameter, absl::string_view value) {
  if (value.empty()) {
    // A null pointer would bind NULL.
    sqlite3_bind_zeroblob(statement_, parameter, 0);
  } else {
    sqlite3_bind_blob64(statement_, parameter, value.data(), value.size(),
                        SQLITE_TRANSIENT);
  }
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return SqliteStatus(result, sqlite3_db_handle(statement_), path_);
}

absl::Status Statement::Run() {
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

int64_t Statement::Int64(int column) const {
  return sqlite3_column_int64(statement_, column);
}

std::string Statement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (size == 0) return std::string();
  return std::string(static_cast<const char*>(data), static_cast<size_t>(size));
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(
    const std::string& path, const std::string& vfs) {
  HEARTH_ASSIGN_OR_RETURN(Connection connection, Connect(path, vfs));
  std::unique_ptr<Database> database(
      new Database(connection.release(), path, vfs));
  sqlite3_wal_hook(database->handle_, AfterCommit, database.get());
  HEARTH_RETURN_IF_ERROR(database->Execute(
      absl::StrCat("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                   "PRAGMA foreign_keys = ON; PRAGMA cache_size = -",
                   kPageCacheKib)));
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

// The source is a connection of its own, so that the copy is one read
// transaction, which neither waits for writers nor holds them up.
absl::Status Database::Copy(const std::string& from, const std::string& to,
                            const std::string& vfs) {
  HEARTH_ASSIGN_OR_RETURN(const Connection source, Connect(from, vfs));
  HEARTH_ASSIGN_OR_RETURN(const Connection target, Connect(to, vfs));
  return CopyPages(source.get(), target.get(), to);
}

// The check reports pages that cannot be read as damaged. So its findings count
// only in a copy, for which all pages have been read.
absl::Status Database::CheckSound() {
  const absl::Status status = QuickCheck();
  if (!absl::IsDataLoss(status)) return status;
  HEARTH_ASSIGN_OR_RETURN(Connection connection, Connect(":memory:", ""));
  Database copy(connection.release(), path_, "");
  HEARTH_RETURN_IF_ERROR(CopyPages(handle_, copy.handle_, path_));
  return copy.QuickCheck();
}

absl::Status Database::QuickCheck() {
  HEARTH_ASSIGN_OR_RETURN(Statement check, Prepare("PRAGMA quick_check(1)"));
  HEARTH_RETURN_IF_ERROR(check.Step().status());
  const std::string found = check.Bytes(0);
  if (found == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path_, ": ", found));
}

absl::Status Database::Execute(const std::string& sql) {
  const int result =
      sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return StatusOf(result);
}

int Database::AfterCommit(void* database, sqlite3*, const char*, int pages) {
  // The commit is valid, whatever becomes of the checkpoint.
  if (pages >= kMaxLogPages) {
    static_cast<Database*>(database)
        ->Checkpoint(SQLITE_CHECKPOINT_PASSIVE)
        .IgnoreError();
  }
  return SQLITE_OK;
}

absl::Status Database::Checkpoint(int mode) {
  return StatusOf(
      sqlite3_wal_checkpoint_v2(handle_, nullptr, mode, nullptr, nullptr));
}

absl::Status Database::StatusOf(int result) {
  if (result == SQLITE_OK) return absl::OkStatus();
  if (sqlite3_extended_errcode(handle_) == SQLITE_IOERR_FSYNC) {
    log_has_gaps_ = true;
  }
  return SqliteStatus(result, handle_, path_);
}

absl::Status Database::MakeReady(Durability durability) {
  if (log_has_gaps_) {
    HEARTH_RETURN_IF_ERROR(Checkpoint(SQLITE_CHECKPOINT_TRUNCATE));
    log_has_gaps_ = false;
  }
  if (durability == durability_) return absl::OkStatus();
  // With a write-ahead log, NORMAL syncs at checkpoints only.
  HEARTH_RETURN_IF_ERROR(Execute(durability == Durability::kLazily
                                     ? "PRAGMA synchronous = NORMAL"
                                     : "PRAGMA synchronous = FULL"));
  durability_ = durability;
  return absl::OkStatus();
}

int64_t Database::LastInsertRow() const {
  return sqlite3_last_insert_rowid(handle_);
}

absl::StatusOr<Statement> Database::Prepare(const std::string& sql) {
  const auto [entry, is_new] = statements_.try_emplace(sql, nullptr);
  if (is_new) {
    const int result =
        sqlite3_prepare_v3(handle_, sql.c_str(), static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT, &entry->second, nullptr);
    if (result != SQLITE_OK) {
      statements_.erase(entry);
      return SqliteStatus(result, handle_, path_);
    }
  }
  return Statement(entry->second, path_);
}

absl::StatusOr<std::unique_ptr<Transaction>> Transaction::Begin(
    Database& database, Durability durability) {
  HEARTH_RETURN_IF_ERROR(database.MakeReady(durability));
  HEARTH_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  return std::unique_ptr<Transaction>(new Transaction(database));
}

Transaction::~Transaction() {
  // After some errors SQLite has rolled back already; then this fails.
  if (open_) static_cast<void>(database_.Execute("ROLLBACK"));
}

absl::Status Transaction::Commit() {
  HEARTH_RETURN_IF_ERROR(database_.Execute("COMMIT"));
  open_ = false;
  return absl::OkStatus();
}

namespace {

// Entry N brings the tables from version N to version N + 1. Entries of
// released versions are never changed: a new version is a new entry at the end.
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
    // interruptions: times in a row that the daemon died while the job ran.
    // waiting_reason: resource that the job waits for; empty = none.
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
    // triggers, so that nobody counts rows. damaged_rows: unreadable rows of
    // jobs, unchanged.
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
    // jobs.owner: submitter of the job; empty = callers were not identified.
    // tokens: only the SHA-256 of each secret; rows of revoked tokens stay.
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

// Copies the database, before it is changed, next to itself.
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
