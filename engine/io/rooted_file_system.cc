// A path is let through in three steps:
//   1. find the root that it begins with, and open what lies below with
//      openat2: the file itself for reading, the folder that holds it for
//      changes of its entries. The descriptor then stands for one file or
//      folder, however its path changes;
//   2. call the base with the path of that descriptor, /proc/self/fd/N, which
//      the kernel takes straight to the open file or folder;
//   3. put the path back into errors.
#include "engine/io/rooted_file_system.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/io/descriptor.h"
#include "engine/io/whole_file.h"

namespace hearth::io {
namespace {

struct Root {
  std::string path;
  Descriptor folder;
};

// The part of `path` below `folder`, "." for the folder itself; empty if it
// does not begin with it.
std::string Below(absl::string_view path, absl::string_view folder) {
  while (absl::EndsWith(folder, "/")) folder.remove_suffix(1);
  if (!absl::StartsWith(path, folder)) return "";
  path.remove_prefix(folder.size());
  if (!path.empty() && path[0] != '/') return "";
  while (absl::StartsWith(path, "/")) path.remove_prefix(1);
  return path.empty() ? "." : std::string(path);
}

bool HasDotDot(absl::string_view path) {
  return path == ".." || absl::StartsWith(path, "../") ||
         absl::EndsWith(path, "/..") || absl::StrContains(path, "/../");
}

int OpenBeneath(int root, const std::string& path, uint64_t flags,
                uint64_t mode = 0) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(
      syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how)));
}

std::string ProcPath(const Descriptor& descriptor) {
  return absl::StrCat("/proc/self/fd/", descriptor.get());
}

absl::Status Renamed(const absl::Status& status, const std::string& from,
                     const std::string& to) {
  if (status.ok()) return status;
  absl::Status renamed(status.code(),
                       absl::StrReplaceAll(status.message(), {{from, to}}));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    renamed.SetPayload(url, payload);
  });
  return renamed;
}

// A file whose path() is the path that was asked for.
class RootedReadableFile final : public ReadableFile {
 public:
  RootedReadableFile(std::unique_ptr<ReadableFile> file, std::string proc_path,
                     std::string path)
      : file_(std::move(file)),
        proc_path_(std::move(proc_path)),
        path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    const absl::Status status = file_->Read(offset, out);
    return status.ok() ? status : Renamed(status, proc_path_, path_);
  }
  absl::StatusOr<FileInfo> Info() override { return file_->Info(); }
  const std::string& path() const override { return path_; }

 private:
  const std::unique_ptr<ReadableFile> file_;
  const std::string proc_path_;
  const std::string path_;
};

class RootedWritableFile final : public WritableFile {
 public:
  RootedWritableFile(std::unique_ptr<WritableFile> file, std::string proc_path,
                     std::string path)
      : file_(std::move(file)),
        proc_path_(std::move(proc_path)),
        path_(std::move(path)) {}

  absl::Status Append(absl::Span<const std::byte> data) override {
    return Named(file_->Append(data));
  }
  absl::Status Write(uint64_t offset,
                     absl::Span<const std::byte> data) override {
    return Named(file_->Write(offset, data));
  }
  absl::Status Allocate(uint64_t size_bytes) override {
    return Named(file_->Allocate(size_bytes));
  }
  absl::Status Sync() override { return Named(file_->Sync()); }
  absl::Status Close() override { return Named(file_->Close()); }

 private:
  absl::Status Named(const absl::Status& status) const {
    return Renamed(status, proc_path_, path_);
  }

  const std::unique_ptr<WritableFile> file_;
  const std::string proc_path_;
  const std::string path_;
};

class RootedMappedFile final : public MappedFile {
 public:
  RootedMappedFile(std::unique_ptr<MappedFile> file, std::string proc_path,
                   std::string path)
      : file_(std::move(file)),
        proc_path_(std::move(proc_path)),
        path_(std::move(path)) {}

  absl::Span<const std::byte> data() const override { return file_->data(); }
  absl::Status status() const override {
    return Renamed(file_->status(), proc_path_, path_);
  }
  void Prefetch(const std::stop_token& stop) const override {
    file_->Prefetch(stop);
  }

 private:
  const std::unique_ptr<MappedFile> file_;
  const std::string proc_path_;
  const std::string path_;
};

class RootedFileSystem final : public FileSystem {
 public:
  RootedFileSystem(FileSystem& base, std::string free, unsigned mask)
      : base_(base), free_(std::move(free)), mask_(mask) {}

  absl::Status Hold(const Roots& roots) {
    HEARTH_RETURN_IF_ERROR(Hold(roots.read, read_));
    HEARTH_RETURN_IF_ERROR(Hold(roots.write, write_));
    reads_anywhere_ = roots.read.empty();
    writes_anywhere_ = roots.write.empty();
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(
      const std::string& path) override {
    return Open(path, [this](const std::string& name) {
      return base_.OpenForRead(name);
    });
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForScan(
      const std::string& path) override {
    return Open(path, [this](const std::string& name) {
      return base_.OpenForScan(name);
    });
  }

  absl::StatusOr<std::unique_ptr<BlockDevice>> OpenBlockDevice(
      const std::string& path, const BlockDeviceOptions& options) override {
    return Reading(path, [&](const std::string& name) {
      return base_.OpenBlockDevice(name, options);
    });
  }

  absl::StatusOr<std::unique_ptr<MappedFile>> Map(
      const std::string& path, AccessPattern pattern) override {
    std::string used;
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file,
                            Reading(path, [&](const std::string& name) {
                              used = name;
                              return base_.Map(name, pattern);
                            }));
    if (used == path) return file;
    return std::make_unique<RootedMappedFile>(std::move(file), used, path);
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    return Reading(
        path, [this](const std::string& name) { return base_.Stat(name); });
  }

  absl::StatusOr<std::string> RealPath(const std::string& path) override {
    return base_.RealPath(path);
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override {
    return Reading(directory, [this](const std::string& name) {
      return base_.List(name);
    });
  }

  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    return Reading(path, [this](const std::string& name) {
      return base_.FreeBytes(name);
    });
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    return NewFile(
        path, [this](const std::string& name) { return base_.Create(name); });
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncached(
      const std::string& path) override {
    return NewFile(path, [this](const std::string& name) {
      return base_.CreateUncached(name);
    });
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(
      const std::string& path) override {
    return NewFile(path, [this](const std::string& name) {
      return base_.OpenForAppend(name);
    });
  }

  absl::Status CreateDirectory(const std::string& path) override {
    if (IsFree(path)) return base_.CreateDirectory(path);
    return InFolder(path, [&](const std::string& name) -> absl::Status {
      struct stat info {};
      const bool is_new = lstat(name.c_str(), &info) != 0;
      HEARTH_RETURN_IF_ERROR(base_.CreateDirectory(name));
      if (!is_new) return absl::OkStatus();
      const int folder =
          open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      const Descriptor owner(folder);
      if (folder < 0 || fchmod(folder, 0777 & ~mask_) != 0) {
        return ErrnoStatus(errno, name, "chmod");
      }
      return absl::OkStatus();
    });
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    return InFolder(from, [&](const std::string& old_name) {
      return InFolder(to, [&](const std::string& new_name) {
        return base_.Rename(old_name, new_name);
      });
    });
  }

  absl::Status RemoveTree(const std::string& path) override {
    const absl::Status status = InFolder(
        path, [&](const std::string& name) { return base_.RemoveTree(name); });
    // OK also if the folder that would hold it is absent.
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  absl::Status SyncDirectory(const std::string& path) override {
    return Reading(path, [this](const std::string& name) {
      return base_.SyncDirectory(name);
    });
  }

 private:
  static absl::Status Hold(const std::vector<std::string>& paths,
                           std::vector<Root>& roots) {
    for (const std::string& path : paths) {
      absl::StatusOr<Descriptor> folder =
          OpenDescriptor(path, O_PATH | O_DIRECTORY);
      if (!folder.ok()) return Annotate(folder.status(), "root");
      roots.push_back({.path = path, .folder = *std::move(folder)});
    }
    return absl::OkStatus();
  }

  bool IsFree(const std::string& path) const {
    return !free_.empty() && !HasDotDot(path) && !Below(path, free_).empty();
  }

  // Opens `path`, an existing file or folder, below one of the roots.
  absl::StatusOr<Descriptor> OpenBelow(const std::string& path,
                                       bool for_writing) const {
    int error = 0;
    std::vector<std::string> names;
    for (const std::vector<Root>* roots : {&write_, &read_}) {
      if (for_writing && roots == &read_) break;
      for (const Root& root : *roots) {
        if (std::find(names.begin(), names.end(), root.path) == names.end()) {
          names.push_back(root.path);
        }
        const std::string below = Below(path, root.path);
        if (below.empty()) continue;
        Descriptor opened(OpenBeneath(root.folder.get(), below, O_PATH));
        if (opened.get() >= 0) return opened;
        // A path that leads out of a root, or through a symbolic link, counts
        // as absent.
        if (errno != EXDEV && errno != ELOOP) error = errno;
      }
    }
    if (error != 0) return ErrnoStatus(error, path, "opening");
    return absl::PermissionDeniedError(
        absl::StrCat(path,
                     for_writing ? ": files may only be written below "
                                 : ": files may only be read below ",
                     absl::StrJoin(names, ", "), ", without symbolic links"));
  }

  // Calls `use` with a name of the file or folder `path`.
  template <typename Use>
  auto Reading(const std::string& path, const Use& use) -> decltype(use(path)) {
    if (IsFree(path) || reads_anywhere_) return use(path);
    HEARTH_ASSIGN_OR_RETURN(const Descriptor opened, OpenBelow(path, false));
    const std::string name = ProcPath(opened);
    auto result = use(name);
    if (IsOk(result)) return result;
    return Renamed(StatusOf(result), name, path);
  }

  // Calls `use` with a name of the entry `path`, which need not be there, in
  // the folder that holds it.
  template <typename Use>
  absl::Status InFolder(const std::string& path, const Use& use) {
    if (IsFree(path) || writes_anywhere_) return use(path);
    const std::string folder = ParentDirectory(path);
    const std::string entry = path.substr(path.rfind('/') + 1);
    if (entry.empty() || entry == "." || entry == "..") {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": does not name an entry of a folder"));
    }
    HEARTH_ASSIGN_OR_RETURN(const Descriptor opened, OpenBelow(folder, true));
    const std::string name = ProcPath(opened);
    return Renamed(use(absl::StrCat(name, "/", entry)), name, folder);
  }

  template <typename OpenFile>
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(
      const std::string& path, const OpenFile& open_file) {
    std::string used;
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file,
                            Reading(path, [&](const std::string& name) {
                              used = name;
                              return open_file(name);
                            }));
    if (used == path) return file;
    return std::make_unique<RootedReadableFile>(std::move(file), used, path);
  }

  // Creates the file by openat2, so that a link put in its place meanwhile is
  // neither followed nor changed, and lets the base write to it.
  absl::StatusOr<std::unique_ptr<WritableFile>> NewFile(
      const std::string& path,
      const std::function<absl::StatusOr<std::unique_ptr<WritableFile>>(
          const std::string&)>& create) {
    if (IsFree(path)) return create(path);
    std::unique_ptr<WritableFile> file;
    HEARTH_RETURN_IF_ERROR(
        InFolder(path, [&](const std::string& name) -> absl::Status {
          const Descriptor made(open(
              name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
          if (made.get() < 0) return ErrnoStatus(errno, name, "creating");
          if (fchmod(made.get(), 0666 & ~mask_) != 0) {
            return ErrnoStatus(errno, name, "chmod");
          }
          absl::StatusOr<std::unique_ptr<WritableFile>> created =
              create(ProcPath(made));
          if (!created.ok()) {
            return Renamed(created.status(), ProcPath(made), path);
          }
          file = std::make_unique<RootedWritableFile>(*std::move(created),
                                                      ProcPath(made), path);
          return absl::OkStatus();
        }));
    return file;
  }

  static bool IsOk(const absl::Status& status) { return status.ok(); }
  static const absl::Status& StatusOf(const absl::Status& status) {
    return status;
  }
  template <typename T>
  static bool IsOk(const absl::StatusOr<T>& result) {
    return result.ok();
  }
  template <typename T>
  static const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
    return result.status();
  }

  FileSystem& base_;
  const std::string free_;
  const unsigned mask_;
  bool reads_anywhere_ = true;
  bool writes_anywhere_ = true;
  std::vector<Root> read_;
  std::vector<Root> write_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<FileSystem>> OpenRooted(FileSystem& base,
                                                       const Roots& roots,
                                                       unsigned mask) {
  auto rooted = std::make_unique<RootedFileSystem>(base, roots.free, mask);
  HEARTH_RETURN_IF_ERROR(rooted->Hold(roots));
  return rooted;
}

}  // namespace hearth::io
