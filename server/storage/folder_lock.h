#ifndef HEARTH_SERVER_STORAGE_FOLDER_LOCK_H_
#define HEARTH_SERVER_STORAGE_FOLDER_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth::server {

/// The right of one process to a folder: an exclusive flock on its file
/// hearth.lock, which holds the pid for others' messages. The kernel drops it
/// when the process ends, however it ends. Move-only.
class FolderLock {
 public:
  /// Does not wait. UNAVAILABLE, naming the other's pid, if a process has the
  /// folder: "WHAT FOLDER is in use by another hearthd, process 7; REMEDY".
  static absl::StatusOr<FolderLock> Take(const std::string& folder,
                                         absl::string_view what,
                                         absl::string_view remedy);

  FolderLock(FolderLock&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_FOLDER_LOCK_H_
