// After a sync that failed, Linux takes for written what was not, so that the
// next sync succeeds over a log with a gap, at which a recovery would stop:
// commits after it would be lost. What has been synced before, or is written
// after, is not concerned, and SQLite writes a commit that failed anew; but
// commits that were made lazily stand in the log. So, before the next
// transaction, the log is brought into the file and begins anew.
#include "server/storage/sqlite.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/wait_cause.h"

namespace hearth::server {
namespace {

// How long to wait for an operator's sqlite3 shell to let go of the file.
constexpr int kBusyTimeoutMs = 5000;
// The length of the log from which on it is brought into the file.
constexpr int kMaxLogPages = 1000;
// Pages kept in memory, in KiB. Others are read from the system's page cache.
// Few, so that a daemon soon has the memory that it keeps: queries go by
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

// The status of the last call on `handle`, null if there was no memory for it.
absl::Status SqliteStatus(int result, sqlite3* handle,
                          const std::string& path) {
  const std::string message =
      absl::StrCat(path, ": ", handle ? sqlite3_errmsg(handle) : "no memory");
  const int kind = result & 0xff;
  // Files beside the database are made, and grow, when it is opened and read.
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

// All pages of the database `from` to that of `to`, whose path is for messages.
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

// The check takes a page that cannot be read for a damaged one. So what it
// finds counts only in a copy, for which all pages have been read.
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
  // The commit stands, whatever becomes of this.
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
  // In a write-ahead log, NORMAL syncs at checkpoints alone.
  HEARTH_RETURN_IF_ERROR(Execute(durability == Durability::kLazily
                                     ? "PRAGMA synchronous = NORMAL"
                                     : "PRAGMA synchronous = FULL"));
  durability_ = durability;
  return absl::OkStatus();
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
  // SQLite has rolled back on its own after some errors; then this fails.
  if (open_) static_cast<void>(database_.Execute("ROLLBACK"));
}

absl::Status Transaction::Commit() {
  HEARTH_RETURN_IF_ERROR(database_.Execute("COMMIT"));
  open_ = false;
  return absl::OkStatus();
}

}  // namespace hearth::server
