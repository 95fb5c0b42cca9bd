#include "engine/io/posix_files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/descriptor.h"

// FaultGuard: a signal handler may run on any thread at any moment, so the
// table of guards is an array of atomics, which the handler reads without
// locks. A guard is active once `begin` is not 0; `end` and `fault` are set
// before.

namespace hearth::io {

namespace {

constexpr uint64_t kNoFault = UINT64_MAX;

struct Guard {
  std::atomic<bool> taken = false;
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
  std::atomic<uint64_t> fault = kNoFault;
};

static_assert(std::atomic<uintptr_t>::is_always_lock_free);

std::array<Guard, FaultGuard::kMaxGuards>& Guards() {
  static auto& guards = *new std::array<Guard, FaultGuard::kMaxGuards>();
  return guards;
}

// Set before the handler is installed.
std::array<Guard, FaultGuard::kMaxGuards>* guards_of_handler = nullptr;
uintptr_t page_bytes = 0;
struct sigaction previous_action;

// Puts a page of zeros where the fault was. mmap is a plain system call, and so
// safe in a signal handler.
bool Repair(uintptr_t address) {
  for (Guard& guard : *guards_of_handler) {
    const uintptr_t begin = guard.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= guard.end.load()) continue;
    const uintptr_t page = address & ~(page_bytes - 1);
    if (::mmap(reinterpret_cast<void*>(page), page_bytes, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
      return false;
    }
    uint64_t none = kNoFault;
    guard.fault.compare_exchange_strong(none, page - begin);
    return true;
  }
  return false;
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  if (Repair(reinterpret_cast<uintptr_t>(info->si_addr))) return;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
    return;
  }
  // The fault repeats itself once the handler returns, and ends the process.
  ::sigaction(SIGBUS, &previous_action, nullptr);
}

void InstallHandler() {
  guards_of_handler = &Guards();
  page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = &OnBusError;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &previous_action);
}

}  // namespace

FaultGuard::FaultGuard(absl::Span<const std::byte> pages) : index_(kMaxGuards) {
  static std::once_flag once;
  std::call_once(once, InstallHandler);
  const auto begin = reinterpret_cast<uintptr_t>(pages.data());
  for (size_t i = 0; i < kMaxGuards && !pages.empty(); ++i) {
    Guard& guard = Guards()[i];
    if (guard.taken.exchange(true)) continue;
    guard.fault = kNoFault;
    guard.end = begin + pages.size();
    guard.begin.store(begin, std::memory_order_release);
    index_ = i;
    return;
  }
}

FaultGuard::~FaultGuard() {
  if (index_ == kMaxGuards) return;
  Guard& guard = Guards()[index_];
  guard.begin.store(0, std::memory_order_release);
  guard.taken = false;
}

std::optional<uint64_t> FaultGuard::first_fault() const {
  if (index_ == kMaxGuards) return std::nullopt;
  const uint64_t fault = Guards()[index_].fault;
  if (fault == kNoFault) return std::nullopt;
  return fault;
}

namespace {

// The largest alignment that is tried: a larger "block size" is a network's
// advice.
constexpr uint32_t kMaxAlignment = 64 << 10;

class PosixBlockDevice final : public BlockDevice {
 public:
  PosixBlockDevice(Descriptor fd, uint64_t size_bytes, uint32_t alignment,
                   std::string path)
      : fd_(std::move(fd)),
        size_bytes_(size_bytes),
        alignment_(alignment),
        path_(std::move(path)) {}

  uint64_t size_bytes() const override { return size_bytes_; }
  uint32_t alignment() const override { return alignment_; }
  bool direct() const override { return alignment_ > 1; }
  const std::string& path() const override { return path_; }
  int descriptor() const override { return fd_.get(); }

  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override {
    const ssize_t count =
        ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    return count >= 0 ? count : -errno;
  }

 private:
  const Descriptor fd_;
  const uint64_t size_bytes_;
  const uint32_t alignment_;
  const std::string path_;
};

/// Alignments worth trying; empty where direct reads are known to be refused.
std::vector<uint32_t> Candidates(int fd, const struct stat& status) {
  struct statfs system;
  // tmpfs takes the flag since Linux 6.6, and ignores it.
  if (::fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC) return {};
#ifdef STATX_DIOALIGN
  struct statx known;
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &known) == 0 &&
      (known.stx_mask & STATX_DIOALIGN) != 0) {
    if (known.stx_dio_offset_align == 0) return {};
    return {std::max(known.stx_dio_offset_align, known.stx_dio_mem_align)};
  }
#endif
  return {kDirectAlignment, static_cast<uint32_t>(status.st_blksize)};
}

/// Whether `fd`, which has O_DIRECT set, serves reads of this alignment.
bool Serves(int fd, uint32_t alignment, absl::Span<std::byte> memory) {
  if (!std::has_single_bit(alignment) || alignment < 2 ||
      alignment > kMaxAlignment) {
    return false;
  }
  // Any other error shows again at the reads that matter.
  return ::pread(fd, memory.data(), alignment, 0) >= 0 || errno != EINVAL;
}

/// Makes `fd` direct and returns its alignment; leaves it as it is and returns
/// 1 where direct reads are not possible.
absl::StatusOr<uint32_t> MakeDirect(int fd, const struct stat& status) {
  const int flags = ::fcntl(fd, F_GETFL);
  const std::vector<uint32_t> candidates = Candidates(fd, status);
  if (candidates.empty() || ::fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) {
    return 1;
  }
  HEARTH_ASSIGN_OR_RETURN(AlignedMemory memory,
                          AlignedMemory::Allocate(2 * kMaxAlignment));
  const auto address = reinterpret_cast<uintptr_t>(memory.bytes().data());
  const auto aligned = memory.bytes().subspan(-address % kMaxAlignment);
  for (const uint32_t alignment : candidates) {
    if (Serves(fd, alignment, aligned)) return alignment;
  }
  ::fcntl(fd, F_SETFL, flags);
  return 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockDevice>> OpenPosixBlockDevice(
    const std::string& path, const BlockDeviceOptions& options) {
  // O_NONBLOCK, so that a FIFO is refused, not waited on.
  HEARTH_ASSIGN_OR_RETURN(Descriptor fd,
                          OpenDescriptor(path, O_RDONLY | O_NONBLOCK));
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) {
    return ErrnoStatus(errno, path, "examining");
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is not a regular file"));
  }
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  uint32_t alignment = 1;
  if (!options.buffered) {
    HEARTH_ASSIGN_OR_RETURN(alignment, MakeDirect(fd.get(), status));
  }
  if (alignment == 1) {
    // Advice only: without it, the cache reads ahead what nobody asked for.
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  }
  return std::make_unique<PosixBlockDevice>(
      std::move(fd), static_cast<uint64_t>(status.st_size), alignment, path);
}

namespace {

class PosixWritableFile : public WritableFile {
 public:
  /// `end`: where Append writes first.
  PosixWritableFile(Descriptor fd, std::string path, uint64_t end = 0)
      : fd_(std::move(fd)), path_(std::move(path)), end_(end) {}

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
      // The file's size stays: a reader never sees more than was written.
      result = ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0,
                           static_cast<off_t>(size_bytes));
    } while (result != 0 && errno == EINTR);
    // Where the file system cannot reserve, writing shows a full disk.
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
    // The descriptor is closed even after EINTR: do not close it again.
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

  /// Status for errno; the file takes no more calls after it.
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
  std::atomic<uint64_t> end_;
  std::atomic<bool> sync_failed_ = false;
};

/// Writes past the page cache by a second descriptor, with O_DIRECT. Unaligned
/// data is written through the cache: it is sent to the disk at once, and
/// dropped when the next such write has been sent, so that the disk always has
/// work. Sync drops the rest.
class UncachedPosixFile final : public PosixWritableFile {
 public:
  /// `direct` is closed (-1) if the file system has no direct access.
  UncachedPosixFile(Descriptor fd, Descriptor direct, std::string path,
                    uint64_t end)
      : PosixWritableFile(std::move(fd), std::move(path), end),
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
    /// Zero bytes from offset 0 would mean the whole file to the system.
    uint64_t bytes = 0;
  };

  // pwrite past the cache where possible; else through the cache, adding the
  // range to `cached`.
  ssize_t WriteOncePastCache(uint64_t offset, absl::Span<const std::byte> data,
                             Range& cached) const {
    const bool aligned =
        offset % kDirectAlignment == 0 &&
        reinterpret_cast<uintptr_t>(data.data()) % kDirectAlignment == 0;
    if (direct_.get() >= 0 && aligned && data.size() >= kDirectAlignment) {
      const size_t whole = data.size() - data.size() % kDirectAlignment;
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
    // Where the file system cannot, Sync sends everything.
    if (result == 0 || errno == EINVAL || errno == ENOSYS || errno == ESPIPE) {
      return absl::OkStatus();
    }
    // A later Sync would not report the error again.
    return SyncError();
  }

  void Drop(const Range& range) const {
    // Only a hint.
    ::posix_fadvise(fd(), static_cast<off_t>(range.offset),
                    static_cast<off_t>(range.bytes), POSIX_FADV_DONTNEED);
  }

  const Descriptor direct_;
  absl::Mutex mutex_;
  /// Range that the last write through the cache left there.
  Range cached_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::unique_ptr<WritableFile>> OpenUncached(
    const std::string& path, int flags) {
  HEARTH_ASSIGN_OR_RETURN(Descriptor fd,
                          OpenDescriptor(path, O_WRONLY | O_CREAT | flags));
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) {
    return ErrnoStatus(errno, path, "examining");
  }
  absl::StatusOr<Descriptor> direct = OpenDescriptor(path, O_WRONLY | O_DIRECT);
  return std::make_unique<UncachedPosixFile>(
      std::move(fd), direct.ok() ? *std::move(direct) : Descriptor(-1), path,
      static_cast<uint64_t>(status.st_size));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WritableFile>> CreatePosixFile(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(Descriptor fd,
                          OpenDescriptor(path, O_WRONLY | O_CREAT | O_TRUNC));
  return std::make_unique<PosixWritableFile>(std::move(fd), path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncachedPosixFile(
    const std::string& path) {
  return OpenUncached(path, O_TRUNC);
}

absl::StatusOr<std::unique_ptr<WritableFile>> OpenPosixFileForAppend(
    const std::string& path) {
  return OpenUncached(path, 0);
}

}  // namespace hearth::io
