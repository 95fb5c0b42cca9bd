#include "server/storage/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/io/file_system.h"

namespace hearth::server {
namespace {

constexpr char kLockName[] = "hearth.lock";

// "another hearthd, process 7".
std::string OtherProcess(int lock) {
  char text[32] = {};
  const ssize_t length = pread(lock, text, sizeof(text) - 1, 0);
  int pid = 0;
  const bool known = length > 0 && absl::SimpleAtoi(text, &pid);
  return absl::StrCat("another hearthd",
                      known ? absl::StrCat(", process ", pid) : std::string());
}

// A full disk is no reason not to start.
absl::Status WritePid(const std::string& path, int lock) {
  const std::string text = absl::StrCat(getpid(), "\n");
  const bool written =
      ftruncate(lock, 0) == 0 && pwrite(lock, text.data(), text.size(), 0) ==
                                     static_cast<ssize_t>(text.size());
  if (written || errno == ENOSPC) return absl::OkStatus();
  return ErrnoStatus(errno, path, "write");
}

}  // namespace

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder,
                                            absl::string_view what,
                                            absl::string_view remedy) {
  const std::string path = io::JoinPath(folder, kLockName);
  const int lock = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return ErrnoStatus(errno, path, "open");
  FolderLock taken(lock);
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
    const absl::Status written = WritePid(path, lock);
    if (!written.ok()) return written;
    return taken;
  }
  if (errno != EWOULDBLOCK) return ErrnoStatus(errno, path, "flock");
  return absl::UnavailableError(absl::StrCat(
      what, " ", folder, " is in use by ", OtherProcess(lock), "; ", remedy));
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace hearth::server
