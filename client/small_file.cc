#include "client/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"

namespace hearth::client {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

absl::StatusOr<std::string> Read(const std::string& path, bool is_secret) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return ErrnoStatus(errno, path, "open");
  const absl::Cleanup closer = [file] { close(file); };
  struct stat info {};
  if (fstat(file, &info) != 0) return ErrnoStatus(errno, path, "stat");
  if (is_secret && S_ISREG(info.st_mode) && (info.st_mode & S_IRWXO) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": holds a secret that everybody may read: chmod 600 it"));
  }
  std::string text(kMaxBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file, &text[size], text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path, "read");
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is too long"));
  }
  text.resize(size);
  return text;
}

// Writes and syncs a new file.
absl::Status WriteNew(const std::string& path, const std::string& text) {
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return ErrnoStatus(errno, path, "create");
  const absl::Cleanup closer = [file] { close(file); };
  const ssize_t written = write(file, text.data(), text.size());
  if (written < 0 || fsync(file) != 0) return ErrnoStatus(errno, path, "write");
  if (static_cast<size_t>(written) == text.size()) return absl::OkStatus();
  return ErrnoStatus(ENOSPC, path, "write");
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  return Read(path, /*is_secret=*/false);
}

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  return Read(path, /*is_secret=*/true);
}

absl::Status WriteSmallFile(const std::string& path, const std::string& text) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty() && !std::filesystem::exists(folder)) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return ErrnoStatus(error.value(), folder, "create");
    if (chmod(folder.c_str(), 0700) != 0) {
      return ErrnoStatus(errno, folder, "chmod");
    }
  }
  const std::string unfinished = absl::StrCat(path, ".", getpid(), ".tmp");
  absl::Status status = WriteNew(unfinished, text);
  if (status.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, path, "replace");
  }
  if (!status.ok()) unlink(unfinished.c_str());
  return status;
}

}  // namespace hearth::client
