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
#include "engine/io/file_system.h"

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

/// How soon a commit is on the disk. What was committed kLazily survives the
/// end of the process, and power loss from the next kAtOnce commit on; no power
/// loss leaves anything but the state after some commit.
enum class Durability { kAtOnce, kLazily };

/// One connection to a SQLite file, durable at every commit (write-ahead log,
/// synchronous = FULL), with foreign keys on. Errors name the file:
/// RESOURCE_EXHAUSTED with the cause kDiskSpace (see wait_cause.h) on a full
/// disk, UNAVAILABLE where it fails or somebody else has the file, DATA_LOSS
/// for a damaged one. Thread-compatible.
class Database {
 public:
  /// Opens or creates the file `path`, through the VFS of that name; empty =
  /// SQLite's default.
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const std::string& path, const std::string& vfs = "");
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs statements that need no parameters.
  absl::Status Execute(const std::string& sql);

  /// `sql` prepared, from a cache. One use of the same text at a time.
  absl::StatusOr<Statement> Prepare(const std::string& sql);

  /// Copies the database `from`, as it is at one moment, to the new file `to`,
  /// which is durable then but for its directory entry. Others may go on using
  /// `from`. Both through the VFS of that name.
  static absl::Status Copy(const std::string& from, const std::string& to,
                           const std::string& vfs = "");

  /// Looks through the whole file: DATA_LOSS, telling what was found, if it is
  /// damaged. Other errors where pages cannot be read, which says nothing of
  /// them.
  absl::Status CheckSound();

  /// Row number of the last insertion.
  int64_t LastInsertRow() const { return sqlite3_last_insert_rowid(handle_); }

  const std::string& path() const { return path_; }
  const std::string& vfs() const { return vfs_; }

 private:
  friend class Transaction;

  Database(sqlite3* handle, std::string path, std::string vfs)
      : handle_(handle), path_(std::move(path)), vfs_(std::move(vfs)) {}

  absl::Status QuickCheck();
  // Establishes what must be so before a transaction begins.
  absl::Status MakeReady(Durability durability);
  // SQLite's hook after each commit: `pages` are in the log now.
  static int AfterCommit(void* database, sqlite3* handle, const char* name,
                         int pages);
  // Brings the log into the file, as `mode` (SQLITE_CHECKPOINT_*) says.
  absl::Status Checkpoint(int mode);
  // The status of a call that gave `result`; notes syncs that failed.
  absl::Status StatusOf(int result);

  sqlite3* const handle_;
  const std::string path_;
  const std::string vfs_;
  Durability durability_ = Durability::kAtOnce;
  // The log may lack on disk what it has in memory.
  bool log_has_gaps_ = false;
  std::map<std::string, sqlite3_stmt*> statements_;
};

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
  explicit Transaction(Database& database) : database_(database) {}

  Database& database_;
  bool open_ = true;
};

/// Version of the tables that this program reads and writes; a database holds
/// its own in `PRAGMA user_version`, 0 while it is empty.
int SchemaVersion();

/// Makes the tables of an empty database, or brings those of an older version
/// to today's, version by version, each in a transaction. A database that is
/// not empty is first copied to PATH.before-vN, N = SchemaVersion(), which is
/// kept. FAILED_PRECONDITION for a newer version; then nothing is changed.
absl::Status UpdateSchema(io::FileSystem& files, Database& database);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_SQLITE_H_
