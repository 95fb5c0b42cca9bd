#include "engine/io/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status.h"
#include "engine/io/block_device.h"
#include "engine/io/descriptor.h"
#include "engine/io/posix_files.h"

// Durability: a file's contents by fdatasync, which includes its size; names by
// fsync of the directory that holds them.

namespace hearth::io {

namespace {

class MemoryFile final : public ReadableFile {
 public:
  MemoryFile(std::string contents, std::string path)
      : contents_(std::move(contents)), path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (offset > contents_.size() || out.size() > contents_.size() - offset) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ends at byte ", contents_.size()));
    }
    if (!out.empty()) {
      std::memcpy(out.data(), contents_.data() + offset, out.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<FileInfo> Info() override {
    FileInfo info;
    info.size_bytes = contents_.size();
    info.is_regular = true;
    return info;
  }

  const std::string& path() const override { return path_; }

 private:
  const std::string contents_;
  const std::string path_;
};

absl::Status Unimplemented() {
  return absl::UnimplementedError("files in memory are only read");
}

class MemoryFileSystem final : public FileSystem {
 public:
  explicit MemoryFileSystem(std::string contents)
      : contents_(std::move(contents)) {}

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(
      const std::string& path) override {
    return NewMemoryFile(contents_, path);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForScan(
      const std::string& path) override {
    return OpenForRead(path);
  }
  absl::StatusOr<std::unique_ptr<BlockDevice>> OpenBlockDevice(
      const std::string& path, const BlockDeviceOptions& options) override {
    return NewMemoryDevice(contents_, options.buffered ? 1 : 512, path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    return Unimplemented();
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncached(
      const std::string& path) override {
    return Unimplemented();
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(
      const std::string& path) override {
    return Unimplemented();
  }
  absl::StatusOr<std::unique_ptr<MappedFile>> Map(
      const std::string& path, AccessPattern pattern) override {
    return Unimplemented();
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    return NewMemoryFile(contents_, path)->Info();
  }
  absl::StatusOr<std::string> RealPath(const std::string& path) override {
    return path;
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override {
    return Unimplemented();
  }
  absl::Status CreateDirectory(const std::string& path) override {
    return Unimplemented();
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Unimplemented();
  }
  absl::Status RemoveTree(const std::string& path) override {
    return Unimplemented();
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return Unimplemented();
  }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    return Unimplemented();
  }

 private:
  const std::string contents_;
};

void WaitBeforeRetry(int retry) { absl::SleepFor(RetryDelay(retry)); }

int Advice(AccessPattern pattern) {
  switch (pattern) {
    case AccessPattern::kNormal:
      return MADV_NORMAL;
    case AccessPattern::kRandom:
      return MADV_RANDOM;
    case AccessPattern::kSequential:
      break;
  }
  return MADV_SEQUENTIAL;
}

struct CloseDirectory {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

FileInfo ToFileInfo(const struct stat& status) {
  FileInfo info;
  info.size_bytes = static_cast<uint64_t>(status.st_size);
  info.modified = absl::TimeFromTimespec(status.st_mtim);
  info.changed = absl::TimeFromTimespec(status.st_ctim);
  info.is_regular = S_ISREG(status.st_mode);
  info.is_directory = S_ISDIR(status.st_mode);
  info.file_system = status.st_dev;
  return info;
}

absl::StatusOr<FileInfo> StatDescriptor(int fd, const std::string& path) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return ErrnoStatus(errno, path, "examining");
  return ToFileInfo(status);
}

/// Opens a regular file; O_NONBLOCK, so that a FIFO is refused, not waited on.
absl::StatusOr<std::pair<Descriptor, FileInfo>> OpenRegularFile(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(Descriptor fd,
                          OpenDescriptor(path, O_RDONLY | O_NONBLOCK));
  HEARTH_ASSIGN_OR_RETURN(const FileInfo info, StatDescriptor(fd.get(), path));
  if (!info.is_regular) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is not a regular file"));
  }
  return std::make_pair(std::move(fd), info);
}

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(Descriptor fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    const auto read = [this](uint64_t at, absl::Span<std::byte> part) {
      return ::pread(fd_.get(), part.data(), part.size(),
                     static_cast<off_t>(at));
    };
    return ReadFully(read, WaitBeforeRetry, path_, offset, out);
  }

  absl::StatusOr<FileInfo> Info() override {
    return StatDescriptor(fd_.get(), path_);
  }

  const std::string& path() const override { return path_; }

 private:
  const Descriptor fd_;
  const std::string path_;
};

/// Reads past the page cache by a second descriptor, with O_DIRECT. Unaligned
/// ranges are read through the cache and then dropped from it.
class PosixScannedFile final : public ReadableFile {
 public:
  /// `direct` is closed (-1) if the file system has no direct access.
  PosixScannedFile(Descriptor fd, Descriptor direct, std::string path)
      : fd_(std::move(fd)),
        direct_(std::move(direct)),
        path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    const auto read = [this](uint64_t at, absl::Span<std::byte> part) {
      return ReadOnce(at, part);
    };
    return ReadFully(read, WaitBeforeRetry, path_, offset, out);
  }

  absl::StatusOr<FileInfo> Info() override {
    return StatDescriptor(fd_.get(), path_);
  }

  const std::string& path() const override { return path_; }

 private:
  static constexpr uint64_t kDropBytes = 4 << 20;

  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) const {
    const bool aligned =
        offset % kDirectAlignment == 0 &&
        reinterpret_cast<uintptr_t>(out.data()) % kDirectAlignment == 0;
    if (direct_.get() >= 0 && aligned && out.size() >= kDirectAlignment) {
      const size_t whole = out.size() - out.size() % kDirectAlignment;
      const ssize_t count =
          ::pread(direct_.get(), out.data(), whole, static_cast<off_t>(offset));
      // A disk that wants larger units is read through the cache.
      if (count >= 0 || errno != EINVAL) return count;
    }
    const ssize_t count =
        ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (count > 0) {
      // The cache drops a large page only as a whole, once all of it was read:
      // so go back by the size of the largest page. Only a hint.
      const uint64_t begin = offset - std::min(offset, kDropBytes);
      ::posix_fadvise(fd_.get(), static_cast<off_t>(begin),
                      static_cast<off_t>(offset - begin) + count,
                      POSIX_FADV_DONTNEED);
    }
    return count;
  }

  const Descriptor fd_;
  const Descriptor direct_;
  const std::string path_;
};

class PosixMappedFile final : public MappedFile {
 public:
  PosixMappedFile(absl::Span<const std::byte> data, Descriptor fd,
                  std::string path)
      : data_(data), guard_(data), fd_(std::move(fd)), path_(std::move(path)) {}
  ~PosixMappedFile() override {
    guard_.reset();
    if (!data_.empty()) {
      ::munmap(const_cast<std::byte*>(data_.data()), data_.size());
    }
  }

  absl::Span<const std::byte> data() const override { return data_; }

  absl::Status status() const override {
    const std::optional<uint64_t> fault = guard_->first_fault();
    if (!fault.has_value()) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(const FileInfo info,
                            StatDescriptor(fd_.get(), path_));
    if (info.size_bytes < data_.size()) {
      return absl::DataLossError(absl::StrCat(
          path_, ": was cut to ", info.size_bytes, " of ", data_.size(),
          " bytes while in use; byte ", *fault, " could not be read"));
    }
    return absl::UnavailableError(
        absl::StrCat(path_, ": the page at byte ", *fault,
                     " could not be read (Input/output error)"));
  }

  void Prefetch(const std::stop_token& stop) const override {
    // Of a longer range the kernel reads only as much as its read-ahead, 128
    // KiB unless set otherwise.
    constexpr size_t kStepBytes = 128 << 10;
    for (size_t begin = 0; begin < data_.size() && !stop.stop_requested();
         begin += kStepBytes) {
      ::posix_fadvise(fd_.get(), static_cast<off_t>(begin), kStepBytes,
                      POSIX_FADV_WILLNEED);
    }
  }

 private:
  const absl::Span<const std::byte> data_;
  // Declared last, so that it ends before the mapping does.
  std::optional<FaultGuard> guard_;
  const Descriptor fd_;
  const std::string path_;
};

class PosixFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(
      const std::string& path) override {
    HEARTH_ASSIGN_OR_RETURN(auto opened, OpenRegularFile(path));
    return std::make_unique<PosixReadableFile>(std::move(opened.first), path);
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForScan(
      const std::string& path) override {
    HEARTH_ASSIGN_OR_RETURN(auto opened, OpenRegularFile(path));
    ::posix_fadvise(opened.first.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    absl::StatusOr<Descriptor> direct =
        OpenDescriptor(path, O_RDONLY | O_NONBLOCK | O_DIRECT);
    return std::make_unique<PosixScannedFile>(
        std::move(opened.first),
        direct.ok() ? *std::move(direct) : Descriptor(-1), path);
  }

  absl::StatusOr<std::unique_ptr<BlockDevice>> OpenBlockDevice(
      const std::string& path, const BlockDeviceOptions& options) override {
    return OpenPosixBlockDevice(path, options);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    return CreatePosixFile(path);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncached(
      const std::string& path) override {
    return CreateUncachedPosixFile(path);
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(
      const std::string& path) override {
    return OpenPosixFileForAppend(path);
  }

  absl::StatusOr<std::unique_ptr<MappedFile>> Map(
      const std::string& path, AccessPattern pattern) override {
    HEARTH_ASSIGN_OR_RETURN(auto opened, OpenRegularFile(path));
    const size_t size = opened.second.size_bytes;
    // An empty range cannot be mapped, an empty file can.
    if (size == 0) {
      return std::make_unique<PosixMappedFile>(absl::Span<const std::byte>(),
                                               std::move(opened.first), path);
    }
    void* address =
        ::mmap(nullptr, size, PROT_READ, MAP_SHARED, opened.first.get(), 0);
    if (address == MAP_FAILED) return ErrnoStatus(errno, path, "mapping");
    auto mapped = std::make_unique<PosixMappedFile>(
        absl::MakeConstSpan(static_cast<const std::byte*>(address), size),
        std::move(opened.first), path);
    if (::madvise(address, size, Advice(pattern)) != 0) {
      return ErrnoStatus(errno, path, "advising on the mapping");
    }
    return mapped;
  }

  absl::StatusOr<FileInfo> Stat(const std::string& path) override {
    struct stat status;
    if (::stat(path.c_str(), &status) != 0) {
      return ErrnoStatus(errno, path, "examining");
    }
    return ToFileInfo(status);
  }

  absl::StatusOr<std::string> RealPath(const std::string& path) override {
    const std::unique_ptr<char, decltype(&std::free)> resolved(
        ::realpath(path.c_str(), nullptr), &std::free);
    if (resolved == nullptr) return ErrnoStatus(errno, path, "resolving");
    return std::string(resolved.get());
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override;

  absl::Status CreateDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
    const int error = errno;
    struct stat status;
    if (error == EEXIST && ::stat(path.c_str(), &status) == 0 &&
        S_ISDIR(status.st_mode)) {
      return absl::OkStatus();
    }
    return ErrnoStatus(error, path, "creating the directory");
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, from, absl::StrCat("renaming to ", to));
  }

  absl::Status RemoveTree(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error) return absl::OkStatus();
    return ErrnoStatus(error.value(), path, "removing");
  }

  absl::Status SyncDirectory(const std::string& path) override {
    HEARTH_ASSIGN_OR_RETURN(const Descriptor fd,
                            OpenDescriptor(path, O_RDONLY | O_DIRECTORY));
    if (::fsync(fd.get()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, path, "syncing the directory");
  }

  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    struct statvfs status;
    int result;
    do {
      result = ::statvfs(path.c_str(), &status);
    } while (result != 0 && errno == EINTR);
    if (result != 0) return ErrnoStatus(errno, path, "asking for free space");
    return uint64_t{status.f_bavail} * status.f_frsize;
  }
};

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(
    const std::string& directory) {
  const std::unique_ptr<DIR, CloseDirectory> stream(
      ::opendir(directory.c_str()));
  if (stream == nullptr) return ErrnoStatus(errno, directory, "listing");
  std::vector<std::string> names;
  while (true) {
    errno = 0;  // Tells the end of the directory from an error.
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return ErrnoStatus(errno, directory, "listing");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

FileSystem& FileSystem::Posix() {
  static PosixFileSystem files;
  return files;
}

std::string JoinPath(const std::string& directory, const std::string& name) {
  return absl::StrCat(directory, "/", name);
}

std::unique_ptr<ReadableFile> NewMemoryFile(std::string contents,
                                            std::string path) {
  return std::make_unique<MemoryFile>(std::move(contents), std::move(path));
}

std::unique_ptr<FileSystem> NewMemoryFileSystem(std::string contents) {
  return std::make_unique<MemoryFileSystem>(std::move(contents));
}

}  // namespace hearth::io
