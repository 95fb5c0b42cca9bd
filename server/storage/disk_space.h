#ifndef HEARTH_SERVER_STORAGE_DISK_SPACE_H_
#define HEARTH_SERVER_STORAGE_DISK_SPACE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"

/// Disk space: a reserve for writes that must succeed, and the removal of
/// folders in the background.

namespace hearth::server {

/// Disk space that nobody else can take, for the few writes that must succeed
/// on a full disk: a folder of files of equal size. One file is removed to give
/// up space, and made again once the disk has room. Thread-safe.
class DiskReserve {
 public:
  static constexpr int kPieces = 8;
  static constexpr uint64_t kPieceBytes = 1 << 20;
  /// Free bytes that the disk must have in addition to the reserve for it to be
  /// filled.
  static constexpr uint64_t kSlackBytes = 16 << 20;
  /// Time between two attempts to fill it.
  static constexpr absl::Duration kFillInterval = absl::Seconds(5);

  /// `files` and `clock` outlive it. The folder is made when needed.
  DiskReserve(io::FileSystem& files, const Clock& clock, std::string folder)
      : files_(files), clock_(clock), folder_(std::move(folder)) {}

  /// Makes missing pieces, if the disk has room for them and for the slack. OK
  /// also where it has not.
  absl::Status Fill() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Calls `attempt`. While it returns RESOURCE_EXHAUSTED and pieces are left,
  /// gives one up and calls it again. Afterwards fills the reserve, if a piece
  /// is missing and the last attempt to fill was kFillInterval ago.
  absl::Status Write(absl::FunctionRef<absl::Status()> attempt)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Number of pieces that exist.
  int pieces() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::string PathOf(int piece) const;
  bool IsThere(int piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Make(int piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives a piece up; false: there was none.
  bool GiveUp() ABSL_LOCKS_EXCLUDED(mutex_);
  bool FillIsDue() ABSL_LOCKS_EXCLUDED(mutex_);

  io::FileSystem& files_;
  const Clock& clock_;
  const std::string folder_;
  absl::Mutex mutex_;
  // Whether a piece may be missing, and when it was last attempted to make it.
  bool incomplete_ ABSL_GUARDED_BY(mutex_) = true;
  double last_fill_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Removes folders without making callers wait: renames them away at once, and
/// removes them on a thread of its own. Thread-safe.
class Trash {
 public:
  /// `folder` lies on the file system of everything that is thrown away. It is
  /// made when needed; its owner empties it when the daemon starts again.
  /// `on_removed` is called after each removal, on the trash's thread. `files`
  /// must outlive the object.
  Trash(io::FileSystem& files, std::string folder,
        std::function<void()> on_removed);
  /// Waits for the removal of one file, and leaves the rest.
  ~Trash();
  Trash(const Trash&) = delete;
  Trash& operator=(const Trash&) = delete;

  /// Takes a file or folder away from its path, durably. Its space is freed
  /// some time later; at once where the disk is too full to move anything.
  absl::Status Throw(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Move(const std::string& path, const std::string& to);
  void Work(const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mutex_);
  // Next path to remove; blocks for it. Empty: the trash stops.
  std::string Next(const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const std::string& path, const std::stop_token& stop);

  io::FileSystem& files_;
  const std::string folder_;
  const std::function<void()> on_removed_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::string> paths_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_DISK_SPACE_H_
