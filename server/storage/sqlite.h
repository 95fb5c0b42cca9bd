#ifndef HEARTH_SERVER_STORAGE_SQLITE_H_
#define HEARTH_SERVER_STORAGE_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth::server {

/// A prepared statement in use: bind, step, read columns. Ready for the next
/// use when destroyed. Thread-compatible, as its Database is.
class Statement {
 public:
  Statement(sqlite3_stmt* statement, const std::string& path)
      : statement_(statement), path_(path) {}
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;

  /// Parameters are numbered from 1; those not bound are NULL.
  Statement& Bind(int parameter, int64_t value);
  Statement& BindText(int parameter, absl::string_view value);
  Statement& BindBlob(int parameter, absl::string_view value);

  /// True: there is a row to read. False: done.
  absl::StatusOr<bool> Step();
  /// Steps to the end, dropping rows.
  absl::Status Run();

  /// Columns of the row, from 0. NULL reads as 0 and "".
  int64_t Int64(int column) const;
  std::string Bytes(int column) const;
  bool IsNull(int column) const;

 private:
  sqlite3_stmt* statement_;
  const std::string& path_;
};

/// One connection to a SQLite file, durable at every commit (write-ahead log,
/// synchronous = FULL), with foreign keys on. Errors name the file.
/// Thread-compatible.
class Database {
 public:
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs statements that need no parameters.
  absl::Status Execute(const std::string& sql);

  /// `sql` prepared, from a cache. One use of the same text at a time.
  absl::StatusOr<Statement> Prepare(const std::string& sql);

  /// Copies the database `from`, as it is at one moment, to the new file `to`,
  /// which is durable then but for its directory entry. Others may go on using
  /// `from`.
  static absl::Status Copy(const std::string& from, const std::string& to);

  /// Row number of the last insertion.
  int64_t LastInsertRow() const { return sqlite3_last_insert_rowid(handle_); }

  const std::string& path() const { return path_; }

 private:
  Database(sqlite3* handle, std::string path)
      : handle_(handle), path_(std::move(path)) {}

  sqlite3* const handle_;
  const std::string path_;
  std::map<std::string, sqlite3_stmt*> statements_;
};

/// How soon a commit is on the disk. What was committed kLazily survives the
/// end of the process, and power loss from the next kAtOnce commit on; no power
/// loss leaves anything but the state after some commit.
enum class Durability { kAtOnce, kLazily };

/// A transaction: rolled back when destroyed, unless committed.
class Transaction {
 public:
  static absl::StatusOr<std::unique_ptr<Transaction>> Begin(
      Database& database, Durability durability = Durability::kAtOnce);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  absl::Status Commit();

 private:
  Transaction(Database& database, Durability durability)
      : database_(database), durability_(durability) {}

  Database& database_;
  const Durability durability_;
  bool open_ = true;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_SQLITE_H_
