#ifndef HEARTH_SERVER_STORAGE_TRASH_H_
#define HEARTH_SERVER_STORAGE_TRASH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/io/file_system.h"

namespace hearth::server {

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

#endif  // HEARTH_SERVER_STORAGE_TRASH_H_
