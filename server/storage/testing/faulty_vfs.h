#ifndef HEARTH_SERVER_STORAGE_TESTING_FAULTY_VFS_H_
#define HEARTH_SERVER_STORAGE_TESTING_FAULTY_VFS_H_

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace hearth::server {

/// The calls that SQLite makes of a VFS and that may fail. Closing and
/// unlocking may not.
enum class VfsOperation {
  kOpen,
  kDelete,
  kAccess,
  kRead,
  kWrite,
  kTruncate,
  kSync,
  kFileSize,
  kLock,
  kShmMap,
  kShmLock,
};

/// The effect of a fault on the call that it hits.
enum class VfsEffect {
  kFail,       // Nothing is done: SQLITE_IOERR of its kind, or SQLITE_CANTOPEN.
  kFull,       // Nothing is done, for want of space.
  kTearWrite,  // Whole sectors of the first half are written, then as kFail.
  // The machine loses its power: this call and all later ones fail, until
  // RestorePower. What was not synced has not reached the disk ...
  kLosePower,
  // ... or has by every other sector.
  kLosePowerBetweenSectors,
};

struct VfsFault {
  /// The calls that count.
  VfsOperation operation = VfsOperation::kWrite;
  /// The one of them that is hit, counted from 1.
  int64_t nth = 1;
  /// All from the nth on, not it alone.
  bool for_good = false;
  VfsEffect effect = VfsEffect::kFail;
};

/// A VFS of SQLite on top of its default one that counts calls, fails as told
/// and knows what of each file has reached the disk. As on Linux, what a failed
/// sync should have written is not written by the next one either, though it is
/// read until the power is lost; and a file that was never synced is not there
/// then. Nothing is synced in truth. Thread-safe.
class FaultyVfs {
 public:
  /// Registers itself by a name that no other VFS has.
  explicit FaultyVfs(std::string name);
  /// REQUIRES: no file is open.
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  const std::string& name() const { return name_; }

  /// Replaces the fault there is, and counts from here on.
  void Inject(const VfsFault& fault) ABSL_LOCKS_EXCLUDED(mutex_);

  /// No more faults.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Number of calls that the fault has hit since Inject.
  int64_t hits() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Number of all calls so far.
  std::map<VfsOperation, int64_t> counts() const ABSL_LOCKS_EXCLUDED(mutex_);

  bool power_is_lost() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives files the bytes that had reached the disk when the power was lost,
  /// now if it was not, and ends the fault. REQUIRES: no file is open.
  void RestorePower() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes files as they are when they are opened next. REQUIRES: none is open.
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // SQLite's callbacks.
  friend struct VfsCalls;

  // Fate of a call: done, or a result code of SQLite and an `errno`.
  struct Verdict {
    int result = SQLITE_OK;
    int error = 0;
    bool tear = false;
  };

  // One file, as a process sees it and as the disk has it.
  struct Contents {
    std::string cached;
    std::string synced;
    // Sectors of `cached` that the next sync writes.
    std::set<uint64_t> dirty;
    // Whether the disk has the file at all.
    bool on_disk = false;

    void Write(const char* data, uint64_t size, uint64_t offset);
    void Truncate(uint64_t size);
    void Sync();
    std::string AfterPowerLoss(bool between_sectors) const;
  };

  Verdict Arrive(VfsOperation operation) ABSL_LOCKS_EXCLUDED(mutex_);
  // The file is open from now on, and has these bytes if it was not known.
  void Know(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string name_;
  sqlite3_vfs& base_;
  sqlite3_vfs vfs_ = {};
  mutable absl::Mutex mutex_;
  std::optional<VfsFault> fault_ ABSL_GUARDED_BY(mutex_);
  int64_t matching_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
  bool power_is_lost_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<VfsOperation, int64_t> counts_ ABSL_GUARDED_BY(mutex_);
  // By path.
  std::map<std::string, Contents> contents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_TESTING_FAULTY_VFS_H_
