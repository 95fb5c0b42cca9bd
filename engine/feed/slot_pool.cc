#include "engine/feed/slot_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/descriptor.h"

namespace hearth::feed {

namespace {

// More than any machine has; keeps the rounding of sizes from overflowing.
constexpr uint64_t kMaxBytes = uint64_t{1} << 56;

uint64_t FileBytes(uint64_t bytes) {
  constexpr uint64_t kHugePage = io::AlignedMemory::kHugePageBytes;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return RoundUp(std::max<uint64_t>(bytes, 1),
                 bytes > kHugePage ? kHugePage : page);
}

// Always RESOURCE_EXHAUSTED: what the process may have of memory, descriptors
// or mappings has run out.
absl::Status Refused(int error, absl::string_view operation, uint64_t bytes) {
  const std::string text(absl::ErrnoToStatus(error, operation).message());
  return absl::ResourceExhaustedError(
      absl::StrCat("a slot of ", bytes, " bytes for batches: ", text));
}

}  // namespace

int MemoryFileCalls::Create() const {
  return ::memfd_create("hearth-feed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

int MemoryFileCalls::Resize(int descriptor, uint64_t bytes) const {
  return ::ftruncate(descriptor, static_cast<off_t>(bytes));
}

void* MemoryFileCalls::Map(int descriptor, uint64_t bytes) const {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                0);
}

int MemoryFileCalls::Seal(int descriptor) const {
  return ::fcntl(
      descriptor, F_ADD_SEALS,
      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

int MemoryFileCalls::AdviseHugePages(void* address, uint64_t bytes) const {
  return ::madvise(address, bytes, MADV_HUGEPAGE);
}

// A mapped and sealed file in memory.
class MemoryFile {
 public:
  static absl::StatusOr<std::shared_ptr<MemoryFile>> Make(
      uint64_t bytes, const MemoryFileCalls& calls) {
    io::Descriptor descriptor(calls.Create());
    if (descriptor.get() < 0) return Refused(errno, "making a file", bytes);
    if (calls.Resize(descriptor.get(), bytes) != 0) {
      return Refused(errno, "resizing the file", bytes);
    }
    void* const address = calls.Map(descriptor.get(), bytes);
    if (address == MAP_FAILED) return Refused(errno, "mapping it", bytes);
    std::shared_ptr<MemoryFile> file(new MemoryFile(
        std::move(descriptor), static_cast<std::byte*>(address), bytes));
    // After the mapping, the only one that writes.
    if (calls.Seal(file->descriptor()) != 0) {
      return Refused(errno, "sealing it (needs Linux 5.1)", bytes);
    }
    // Advice only: the system may have no huge pages for files.
    calls.AdviseHugePages(address, bytes);
    return file;
  }

  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::munmap(data_, bytes_); }

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  int descriptor() const { return descriptor_.get(); }
  uint64_t id() const { return id_; }

 private:
  MemoryFile(io::Descriptor descriptor, std::byte* data, uint64_t bytes)
      : descriptor_(std::move(descriptor)), data_(data), bytes_(bytes) {
    static std::atomic<uint64_t> last_id = 0;
    id_ = ++last_id;
  }

  const io::Descriptor descriptor_;
  std::byte* const data_;
  const uint64_t bytes_;
  uint64_t id_;
};

// The files of a pool. The pool and its lent slots share it, so that it lives
// as long as any of them. Files are made and destroyed without the lock: to
// free their pages takes milliseconds.
class SlotFiles {
 public:
  SlotFiles(uint64_t expected_bytes, const MemoryFileCalls& calls)
      : expected_bytes_(expected_bytes), calls_(calls) {}

  absl::StatusOr<std::shared_ptr<MemoryFile>> Take(uint64_t bytes)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    if (bytes > kMaxBytes) return Refused(ENOMEM, "mapping it", bytes);
    std::shared_ptr<MemoryFile> replaced;
    {
      absl::MutexLock lock(&mutex_);
      if (closed_) {
        return absl::FailedPreconditionError("the pool of slots is closed");
      }
      const auto fits = free_.lower_bound(bytes);
      if (fits != free_.end()) {
        ++lent_;
        return std::move(free_.extract(fits).mapped());
      }
      // All are too small.
      if (!free_.empty()) {
        replaced = std::move(free_.extract(free_.begin()).mapped());
        bytes_ -= replaced->bytes();
      }
    }
    // First, so that the new one can have its memory.
    replaced.reset();
    HEARTH_ASSIGN_OR_RETURN(
        std::shared_ptr<MemoryFile> file,
        MemoryFile::Make(FileBytes(std::max(bytes, expected_bytes_)), calls_));
    absl::MutexLock lock(&mutex_);
    ++lent_;
    bytes_ += file->bytes();
    return file;
  }

  void Return(std::shared_ptr<MemoryFile> file, bool is_retired)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    --lent_;
    if (closed_ || is_retired) {
      bytes_ -= file->bytes();
      return;
    }
    // Before those of its size, to be lent again first: the client, too, has
    // mapped its pages.
    const uint64_t bytes = file->bytes();
    free_.emplace_hint(free_.lower_bound(bytes), bytes, std::move(file));
  }

  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    FreeFiles destroyed;
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    destroyed.swap(free_);
    for (const auto& [bytes, file] : destroyed) bytes_ -= bytes;
  }

  int64_t num_slots() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return lent_ + static_cast<int64_t>(free_.size());
  }
  int64_t lent() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return lent_;
  }
  uint64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return bytes_;
  }

 private:
  // By size.
  using FreeFiles = std::multimap<uint64_t, std::shared_ptr<MemoryFile>>;

  const uint64_t expected_bytes_;
  const MemoryFileCalls& calls_;
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  FreeFiles free_ ABSL_GUARDED_BY(mutex_);
  int64_t lent_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

Slot::Slot(std::shared_ptr<SlotFiles> files, std::shared_ptr<MemoryFile> file)
    : files_(std::move(files)), file_(std::move(file)) {}

Slot::~Slot() { files_->Return(std::move(file_), retired_); }

std::byte* Slot::data() { return file_->data(); }

uint64_t Slot::bytes() const { return file_->bytes(); }

int Slot::descriptor() const { return file_->descriptor(); }

uint64_t Slot::id() const { return file_->id(); }

std::weak_ptr<const void> Slot::file() const { return file_; }

std::shared_ptr<SlotPool> SlotPool::Make(uint64_t expected_bytes,
                                         const MemoryFileCalls* calls) {
  static const MemoryFileCalls* const system = new MemoryFileCalls();
  return std::shared_ptr<SlotPool>(new SlotPool(std::make_shared<SlotFiles>(
      expected_bytes, calls == nullptr ? *system : *calls)));
}

SlotPool::SlotPool(std::shared_ptr<SlotFiles> files)
    : files_(std::move(files)) {}

SlotPool::~SlotPool() { Close(); }

absl::StatusOr<std::shared_ptr<Slot>> SlotPool::TakeSlot(uint64_t bytes) {
  HEARTH_ASSIGN_OR_RETURN(std::shared_ptr<MemoryFile> file,
                          files_->Take(bytes));
  return std::shared_ptr<Slot>(new Slot(files_, std::move(file)));
}

absl::StatusOr<std::shared_ptr<train::InputMemory>> SlotPool::Take(
    uint64_t bytes) {
  return TakeSlot(bytes);
}

uint64_t SlotPool::SlotBytes(uint64_t bytes) { return FileBytes(bytes); }

void SlotPool::Close() { files_->Close(); }

int64_t SlotPool::num_slots() const { return files_->num_slots(); }

int64_t SlotPool::lent() const { return files_->lent(); }

uint64_t SlotPool::bytes() const { return files_->bytes(); }

}  // namespace hearth::feed
