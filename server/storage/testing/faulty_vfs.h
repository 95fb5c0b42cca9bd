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

/// Calls of a VFS that may fail. Closing and unlocking may not.
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
  kFull,       // Nothing is done: the disk is full.
  kTearWrite,  // Whole sectors of the first half are written, then as kFail.
  // The machine loses power: this call and all later ones fail, until
  // RestorePower. Unsynced bytes have not reached the disk.
  kLosePower,
  // The machine loses power; of the unsynced bytes every other sector has
  // reached the disk.
  kLosePowerBetweenSectors,
};

struct VfsFault {
  /// Calls that count.
  VfsOperation operation = VfsOperation::kWrite;
  /// Number of the call that is hit, from 1.
  int64_t nth = 1;
  /// Whether all calls from the nth on are hit.
  bool for_good = false;
  VfsEffect effect = VfsEffect::kFail;
};

/// SQLite VFS on top of the default one that counts calls, injects faults and
/// knows which bytes of each file have reached the disk. As on Linux, bytes
/// that a failed sync should have written are not written by the next sync
/// either, though they are read until power is lost; and a file that was never
/// synced is gone then. Nothing is really synced. Thread-safe.
class FaultyVfs {
 public:
  /// Registers itself by a name that no other VFS has.
  explicit FaultyVfs(std::string name);
  /// REQUIRES: no file is open.
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  const std::string& name() const { return name_; }

  /// Replaces the current fault, and counts from here on.
  void Inject(const VfsFault& fault) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Ends all faults.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Number of calls that the fault has hit since Inject.
  int64_t hits() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Number of calls of each operation so far.
  std::map<VfsOperation, int64_t> counts() const ABSL_LOCKS_EXCLUDED(mutex_);

  bool power_is_lost() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Gives files the bytes that had reached the disk when power was lost (now,
  /// if it was not), and ends the fault. REQUIRES: no file is open.
  void RestorePower() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Forgets all files: they are read again when they are opened next.
  /// REQUIRES: none is open.
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

  // Contents of one file, as a process sees it and as the disk has it.
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
  // Notes that the file is open, and reads its bytes if it is not known.
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
  // Contents by path.
  std::map<std::string, Contents> contents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_TESTING_FAULTY_VFS_H_
