#include "server/jobs/import_source.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"

namespace hearth::server {
namespace {

// Far deeper than any format has it.
constexpr int kMaxDepth = 16;

// A descriptor, closed when destroyed.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  const int fd_;
};

// Opens `path`, relative to the folder `root`, without leaving it and without
// symbolic links; -1 with errno otherwise.
int OpenBeneath(int root, const char* path, uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, root, path, &how, sizeof(how)));
}

absl::Status NotASource(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": neither a folder nor a regular file"));
}

absl::Status CheckAnywhere(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error == ENOENT && lstat(path.c_str(), &info) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": is a link to nothing"));
    }
    return ErrnoStatus(error, path, "stat");
  }
  if (S_ISDIR(info.st_mode) || S_ISREG(info.st_mode)) return absl::OkStatus();
  return NotASource(path);
}

// The path below `root`; empty if `path` does not begin with it.
std::string Below(const std::string& path, absl::string_view root) {
  while (absl::EndsWith(root, "/")) root.remove_suffix(1);
  absl::string_view rest = path;
  if (!absl::StartsWith(rest, root)) return "";
  rest.remove_prefix(root.size());
  if (!rest.empty() && rest[0] != '/') return "";
  while (absl::StartsWith(rest, "/")) rest.remove_prefix(1);
  return rest.empty() ? "." : std::string(rest);
}

// Whether every entry below `folder` can be opened without a symbolic link.
absl::Status CheckEntries(const Descriptor& folder, const std::string& path,
                          int depth, const std::stop_token& stop) {
  if (depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": more than ", kMaxDepth, " folders deep"));
  }
  const int copy = OpenBeneath(folder.get(), ".", O_RDONLY | O_DIRECTORY);
  DIR* entries = copy < 0 ? nullptr : fdopendir(copy);
  if (entries == nullptr) return ErrnoStatus(errno, path, "open");
  const std::unique_ptr<DIR, int (*)(DIR*)> closer(entries, closedir);
  while (const dirent* entry = readdir(entries)) {
    if (stop.stop_requested()) {
      return absl::CancelledError(absl::StrCat(path, ": stopped on request"));
    }
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string inner = absl::StrCat(path, "/", name);
    const Descriptor file(OpenBeneath(folder.get(), entry->d_name, O_PATH));
    if (!file.ok()) {
      return absl::PermissionDeniedError(absl::StrCat(
          inner, ": symbolic links are not followed under import roots"));
    }
    struct stat info {};
    if (fstat(file.get(), &info) != 0) return ErrnoStatus(errno, inner, "stat");
    if (S_ISDIR(info.st_mode)) {
      HEARTH_RETURN_IF_ERROR(CheckEntries(file, inner, depth + 1, stop));
    }
  }
  return absl::OkStatus();
}

// OK for a regular file, and for a folder with no symbolic link anywhere below.
absl::Status CheckBelow(const Descriptor& source, const std::string& path,
                        const std::stop_token& stop) {
  struct stat info {};
  if (fstat(source.get(), &info) != 0) return ErrnoStatus(errno, path, "stat");
  if (S_ISREG(info.st_mode)) return absl::OkStatus();
  if (S_ISDIR(info.st_mode)) return CheckEntries(source, path, 0, stop);
  return NotASource(path);
}

}  // namespace

absl::Status CheckImportSource(const std::string& path,
                               const std::vector<std::string>& roots,
                               std::stop_token stop) {
  if (roots.empty()) return CheckAnywhere(path);
  for (const std::string& root : roots) {
    const std::string below = Below(path, root);
    if (below.empty()) continue;
    const Descriptor base(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!base.ok()) return ErrnoStatus(errno, root, "open import root");
    const Descriptor source(OpenBeneath(base.get(), below.c_str(), O_PATH));
    if (source.ok()) return CheckBelow(source, path, stop);
    if (errno != EXDEV && errno != ELOOP) {
      return ErrnoStatus(errno, path, "open");
    }
  }
  return absl::PermissionDeniedError(
      absl::StrCat(path, ": imports may only read from ",
                   absl::StrJoin(roots, ", "), ", without symbolic links"));
}

}  // namespace hearth::server
