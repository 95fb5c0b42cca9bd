#include "engine/io/posix_writable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/descriptor.h"
#include "engine/io/transfer.h"

namespace hearth::io {
namespace {

// The alignment that every disk of today accepts.
constexpr uint64_t kDirectBytes = 4096;

class PosixWritableFile : public WritableFile {
 public:
  PosixWritableFile(Descriptor fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Append(absl::Span<const std::byte> data) final {
    return Write(end_, data);
  }

  absl::Status Write(uint64_t offset,
                     absl::Span<const std::byte> data) override {
    return WriteBy(
        [this](uint64_t at, absl::Span<const std::byte> part) {
          return WriteOnce(at, part);
        },
        offset, data);
  }

  absl::Status Allocate(uint64_t size_bytes) final {
    HEARTH_RETURN_IF_ERROR(CheckUsable());
    if (size_bytes == 0) return absl::OkStatus();
    int result;
    do {
      // The size stays that of what was written: a reader never sees more.
      result = ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0,
                           static_cast<off_t>(size_bytes));
    } while (result != 0 && errno == EINTR);
    // Not every file system can reserve; writing then shows a full disk.
    if (result == 0 || errno == EOPNOTSUPP) return absl::OkStatus();
    return ErrnoStatus(errno, path_,
                       absl::StrCat("reserving ", size_bytes, " bytes"));
  }

  absl::Status Sync() override {
    HEARTH_RETURN_IF_ERROR(CheckUsable());
    if (::fdatasync(fd_.get()) != 0) return SyncError();
    return absl::OkStatus();
  }

  absl::Status Close() final {
    const int fd = fd_.Release();
    // After close, EINTR included, the descriptor is gone: never again.
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) {
      return ErrnoStatus(errno, path_, "closing");
    }
    return absl::OkStatus();
  }

 protected:
  /// Writes all of `data` by calls of `once`.
  absl::Status WriteBy(WriteCall once, uint64_t offset,
                       absl::Span<const std::byte> data) {
    HEARTH_RETURN_IF_ERROR(CheckUsable());
    HEARTH_RETURN_IF_ERROR(WriteFully(once, path_, offset, data));
    const uint64_t end = offset + data.size();
    uint64_t before = end_;
    while (before < end && !end_.compare_exchange_weak(before, end)) {
    }
    return absl::OkStatus();
  }

  /// pwrite.
  ssize_t WriteOnce(uint64_t offset, absl::Span<const std::byte> data) const {
    return ::pwrite(fd_.get(), data.data(), data.size(),
                    static_cast<off_t>(offset));
  }

  /// The status of errno, after which the file takes no more calls.
  absl::Status SyncError() {
    sync_failed_ = true;
    return ErrnoStatus(errno, path_, "syncing");
  }

  int fd() const { return fd_.get(); }

 private:
  absl::Status CheckUsable() const {
    if (fd_.get() < 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": is closed already"));
    }
    if (sync_failed_) {
      return absl::FailedPreconditionError(absl::StrCat(
          path_, ": must be written again from the start after a failed sync"));
    }
    return absl::OkStatus();
  }

  Descriptor fd_;
  const std::string path_;
  // Threads may write at the same time.
  std::atomic<uint64_t> end_ = 0;
  std::atomic<bool> sync_failed_ = false;
};

/// Writes past the page cache by a second descriptor with O_DIRECT. What is not
/// aligned is written through the cache: it is sent to the disk at once, and
/// dropped when the next such write has been sent, so that the disk is never
/// waited for without work. What is left is dropped with Sync.
class UncachedPosixFile final : public PosixWritableFile {
 public:
  /// `direct` may be closed: where the file system has no such access.
  UncachedPosixFile(Descriptor fd, Descriptor direct, std::string path)
      : PosixWritableFile(std::move(fd), std::move(path)),
        direct_(std::move(direct)) {}

  absl::Status Write(uint64_t offset,
                     absl::Span<const std::byte> data) override {
    Range cached;
    HEARTH_RETURN_IF_ERROR(WriteBy(
        [&](uint64_t at, absl::Span<const std::byte> part) {
          return WriteOncePastCache(at, part, cached);
        },
        offset, data));
    if (cached.bytes == 0) return absl::OkStatus();
    const absl::MutexLock lock(&mutex_);
    HEARTH_RETURN_IF_ERROR(SyncRange(cached, SYNC_FILE_RANGE_WRITE));
    const Range before = std::exchange(cached_, cached);
    if (before.bytes == 0) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(SyncRange(before, SYNC_FILE_RANGE_WAIT_BEFORE |
                                                 SYNC_FILE_RANGE_WRITE |
                                                 SYNC_FILE_RANGE_WAIT_AFTER));
    Drop(before);
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    HEARTH_RETURN_IF_ERROR(PosixWritableFile::Sync());
    Drop({0, 0});
    return absl::OkStatus();
  }

 private:
  struct Range {
    uint64_t offset = 0;
    /// With an offset of 0, 0 is the whole file for the system.
    uint64_t bytes = 0;
  };

  // pwrite past the cache, if that can be; else adds to `cached` what was
  // written through it.
  ssize_t WriteOncePastCache(uint64_t offset, absl::Span<const std::byte> data,
                             Range& cached) const {
    const bool aligned =
        offset % kDirectBytes == 0 &&
        reinterpret_cast<uintptr_t>(data.data()) % kDirectBytes == 0;
    if (direct_.get() >= 0 && aligned && data.size() >= kDirectBytes) {
      const size_t whole = data.size() - data.size() % kDirectBytes;
      const ssize_t count = ::pwrite(direct_.get(), data.data(), whole,
                                     static_cast<off_t>(offset));
      // A disk that wants larger units is written through the cache.
      if (count >= 0 || errno != EINVAL) return count;
    }
    const ssize_t count = WriteOnce(offset, data);
    if (count > 0) {
      if (cached.bytes == 0) cached.offset = offset;
      cached.bytes = offset + static_cast<uint64_t>(count) - cached.offset;
    }
    return count;
  }

  absl::Status SyncRange(const Range& range, unsigned flags) {
    int result;
    do {
      result = ::sync_file_range(fd(), static_cast<off_t>(range.offset),
                                 static_cast<off_t>(range.bytes), flags);
    } while (result != 0 && errno == EINTR);
    // Not every file system can; Sync does it all then.
    if (result == 0 || errno == EINVAL || errno == ENOSYS || errno == ESPIPE) {
      return absl::OkStatus();
    }
    // A later Sync would not tell again.
    return SyncError();
  }

  void Drop(const Range& range) const {
    // Only a hint.
    ::posix_fadvise(fd(), static_cast<off_t>(range.offset),
                    static_cast<off_t>(range.bytes), POSIX_FADV_DONTNEED);
  }

  const Descriptor direct_;
  absl::Mutex mutex_;
  /// Bytes that the last write through the cache left there.
  Range cached_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<WritableFile>> CreatePosixFile(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(Descriptor fd,
                          OpenDescriptor(path, O_WRONLY | O_CREAT | O_TRUNC));
  return std::make_unique<PosixWritableFile>(std::move(fd), path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncachedPosixFile(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(Descriptor fd,
                          OpenDescriptor(path, O_WRONLY | O_CREAT | O_TRUNC));
  absl::StatusOr<Descriptor> direct = OpenDescriptor(path, O_WRONLY | O_DIRECT);
  return std::make_unique<UncachedPosixFile>(
      std::move(fd), direct.ok() ? *std::move(direct) : Descriptor(-1), path);
}

}  // namespace hearth::io
