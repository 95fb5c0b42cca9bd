#include "server/storage/sqlite.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::server {
namespace {

// How long to wait for an operator's sqlite3 shell to let go of the file.
constexpr int kBusyTimeoutMs = 5000;

absl::StatusCode CodeOf(int result) {
  switch (result & 0xff) {
    case SQLITE_FULL:
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
  absl::StatusCode code = CodeOf(result);
  // Files beside the database are made, and grow, when it is opened and read.
  if ((code == absl::StatusCode::kUnavailable ||
       code == absl::StatusCode::kPermissionDenied) &&
      handle != nullptr && sqlite3_system_errno(handle) == ENOSPC) {
    code = absl::StatusCode::kResourceExhausted;
  }
  return absl::Status(
      code, absl::StrCat(path, ": ",
                         handle ? sqlite3_errmsg(handle) : "out of memory"));
}

using Connection = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

absl::StatusOr<Connection> Connect(const std::string& path) {
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(
      path.c_str(), &handle,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
      nullptr);
  Connection connection(handle, sqlite3_close);
  if (result != SQLITE_OK) {
    return SqliteStatus(result, handle, path);
  }
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  return connection;
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
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(Connection connection, Connect(path));
  std::unique_ptr<Database> database(new Database(connection.release(), path));
  HEARTH_RETURN_IF_ERROR(
      database->Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                        "PRAGMA foreign_keys = ON"));
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

// The source is a connection of its own, so that the copy is one read
// transaction, which neither waits for writers nor holds them up.
absl::Status Database::Copy(const std::string& from, const std::string& to) {
  HEARTH_ASSIGN_OR_RETURN(const Connection source, Connect(from));
  HEARTH_ASSIGN_OR_RETURN(const Connection target, Connect(to));
  sqlite3_backup* copy =
      sqlite3_backup_init(target.get(), "main", source.get(), "main");
  if (copy != nullptr) {
    sqlite3_backup_step(copy, -1);
    sqlite3_backup_finish(copy);
  }
  const int result = sqlite3_errcode(target.get());
  if (result == SQLITE_OK) return absl::OkStatus();
  return SqliteStatus(result, target.get(), to);
}

absl::Status Database::Execute(const std::string& sql) {
  const int result =
      sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (result == SQLITE_OK) return absl::OkStatus();
  return SqliteStatus(result, handle_, path_);
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
  // In a write-ahead log, NORMAL syncs at checkpoints alone.
  if (durability == Durability::kLazily) {
    HEARTH_RETURN_IF_ERROR(database.Execute("PRAGMA synchronous = NORMAL"));
  }
  std::unique_ptr<Transaction> transaction(
      new Transaction(database, durability));
  const absl::Status begun = database.Execute("BEGIN IMMEDIATE");
  transaction->open_ = begun.ok();
  HEARTH_RETURN_IF_ERROR(begun);
  return transaction;
}

Transaction::~Transaction() {
  // SQLite has rolled back on its own after some errors; then this fails.
  if (open_) static_cast<void>(database_.Execute("ROLLBACK"));
  // This sets a variable of the connection, which cannot fail.
  if (durability_ == Durability::kLazily) {
    static_cast<void>(database_.Execute("PRAGMA synchronous = FULL"));
  }
}

absl::Status Transaction::Commit() {
  HEARTH_RETURN_IF_ERROR(database_.Execute("COMMIT"));
  open_ = false;
  return absl::OkStatus();
}

}  // namespace hearth::server
