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

namespace hearth::server {

/// Space on a disk that nobody else can take, for the few writes that must
/// succeed when it is full: a folder of files of one size. To give up space,
/// one of them is removed; it is made again once the disk has room.
/// Thread-safe.
class DiskReserve {
 public:
  static constexpr int kPieces = 8;
  static constexpr uint64_t kPieceBytes = 1 << 20;
  /// Free bytes that a disk must have beside the reserve for it to be filled.
  static constexpr uint64_t kSlackBytes = 16 << 20;
  /// The time between two tries to fill it.
  static constexpr absl::Duration kFillInterval = absl::Seconds(5);

  /// `files` and `clock` outlive it. The folder is made when needed.
  DiskReserve(io::FileSystem& files, const Clock& clock, std::string folder)
      : files_(files), clock_(clock), folder_(std::move(folder)) {}

  /// Makes the missing pieces, if the disk has room for them and slack. OK also
  /// where it has not.
  absl::Status Fill() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Makes an attempt to write. While that gives RESOURCE_EXHAUSTED and pieces
  /// are left, gives one up and makes it again. Afterwards fills the reserve,
  /// if a piece is missing and it was not tried just before.
  absl::Status Write(absl::FunctionRef<absl::Status()> attempt)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Pieces that are there.
  int pieces() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::string PathOf(int piece) const;
  bool IsThere(int piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Make(int piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there was one to give up.
  bool GiveUp() ABSL_LOCKS_EXCLUDED(mutex_);
  bool FillIsDue() ABSL_LOCKS_EXCLUDED(mutex_);

  io::FileSystem& files_;
  const Clock& clock_;
  const std::string folder_;
  absl::Mutex mutex_;
  // A piece is missing, and when it was last tried to make it.
  bool incomplete_ ABSL_GUARDED_BY(mutex_) = true;
  double last_fill_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Removes folders without making anybody wait for it: they are renamed away at
/// once, and removed on a thread of its own. Thread-safe.
class Trash {
 public:
  /// `folder` lies on the file system of all that is thrown away; it is made
  /// when needed, and whoever owns it empties it when the daemon starts again.
  /// `on_removed` is called after each removal, on the trash's thread. `files`
  /// must outlive this.
  Trash(io::FileSystem& files, std::string folder,
        std::function<void()> on_removed);
  /// Waits for the file that is being removed, and leaves the rest.
  ~Trash();
  Trash(const Trash&) = delete;
  Trash& operator=(const Trash&) = delete;

  /// Takes a file or folder away, durably: nobody finds it by its path any
  /// more. Its space is free some time later; at once where the disk is so full
  /// that nothing can be moved.
  absl::Status Throw(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Move(const std::string& path, const std::string& to);
  void Work(const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mutex_);
  // The next path to remove; blocks for it. Empty: the trash goes.
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
