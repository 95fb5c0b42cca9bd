#ifndef HEARTH_SERVER_STORAGE_SQLITE_H_
#define HEARTH_SERVER_STORAGE_SQLITE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"

/// Connections to SQLite, prepared statements and transactions, and the tables
/// of hearth.db (UpdateSchema). Only sqlite.cc includes sqlite3.h.

struct sqlite3;
struct sqlite3_stmt;

namespace hearth::server {

/// Prepared statement in use: bind, step, read columns. Its destructor makes it
/// ready for the next use. Thread-compatible, as its Database is.
class Statement {
 public:
  Statement(sqlite3_stmt* statement, const std::string& path)
      : statement_(statement), path_(path) {}
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;

  /// Binds a parameter, numbered from 1. Parameters that are not bound are
  /// NULL.
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

/// When a commit reaches the disk. A kLazily commit survives the end of the
/// process at once, and power loss from the next kAtOnce commit on. After power
/// loss the database is always in the state after some commit.
enum class Durability { kAtOnce, kLazily };

/// Connection to a SQLite file, durable at every commit (write-ahead log,
/// synchronous = FULL), with foreign keys on. Errors name the file:
/// RESOURCE_EXHAUSTED with WaitCause::kDiskSpace on a full disk, UNAVAILABLE
/// where the disk fails or another process has the file, DATA_LOSS for a
/// damaged file. Thread-compatible.
class Database {
 public:
  /// Opens or creates the file `path`, through the VFS of this name; empty =
  /// SQLite's default.
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const std::string& path, const std::string& vfs = "");
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs statements that need no parameters.
  absl::Status Execute(const std::string& sql);

  /// Prepares `sql`, from a cache. REQUIRES: one use of the same text at a
  /// time.
  absl::StatusOr<Statement> Prepare(const std::string& sql);

  /// Copies the database `from`, as it is at one moment, to the new file `to`,
  /// which is durable then except for its directory entry. `from` may be in
  /// use. `vfs` is for both.
  static absl::Status Copy(const std::string& from, const std::string& to,
                           const std::string& vfs = "");

  /// Checks the whole file: DATA_LOSS, with the finding, if it is damaged.
  /// Other errors where pages cannot be read, which says nothing about their
  /// contents.
  absl::Status CheckSound();

  /// Row number of the last insertion.
  int64_t LastInsertRow() const;

  const std::string& path() const { return path_; }
  const std::string& vfs() const { return vfs_; }

 private:
  friend class Transaction;

  Database(sqlite3* handle, std::string path, std::string vfs)
      : handle_(handle), path_(std::move(path)), vfs_(std::move(vfs)) {}

  absl::Status QuickCheck();
  // Repairs the log after failed syncs, and sets the durability of the next
  // transaction.
  absl::Status MakeReady(Durability durability);
  // SQLite's hook after each commit; the log now has `pages` pages.
  static int AfterCommit(void* database, sqlite3* handle, const char* name,
                         int pages);
  // Copies the log into the file, as `mode` (SQLITE_CHECKPOINT_*) says.
  absl::Status Checkpoint(int mode);
  // Status of a call that returned `result`; notes failed syncs.
  absl::Status StatusOf(int result);

  sqlite3* const handle_;
  const std::string path_;
  const std::string vfs_;
  Durability durability_ = Durability::kAtOnce;
  // Whether the log on disk may lack pages that it has in memory.
  bool log_has_gaps_ = false;
  std::map<std::string, sqlite3_stmt*> statements_;
};

/// Transaction that is rolled back on destruction, unless committed.
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

/// Version of the tables that this program reads and writes. A database has its
/// own in `PRAGMA user_version`, 0 while it is empty.
int SchemaVersion();

/// Makes the tables of an empty database, or brings older tables to the current
/// version, version by version, each in a transaction. A database that is not
/// empty is first copied to PATH.before-vN, N = SchemaVersion(), which is kept.
/// FAILED_PRECONDITION for a newer version; then nothing is changed.
absl::Status UpdateSchema(io::FileSystem& files, Database& database);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_SQLITE_H_
