#ifndef HEARTH_ENGINE_IO_TESTING_FAULTS_H_
#define HEARTH_ENGINE_IO_TESTING_FAULTS_H_

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"

namespace hearth::io {

/// A fault that hits attempts to read.
struct DeviceFault {
  enum class Effect {
    kFail,     // The attempt gives `error`.
    kShorten,  // The attempt reads at most `bytes`: 0 is the end of the file.
    kHold,     // The attempt waits for Release, then reads as usual.
  };

  /// Number of the attempt that is hit, counted from 1.
  int64_t nth = 1;
  /// Whether all from the nth on are hit, instead of the nth alone.
  bool for_good = false;
  Effect effect = Effect::kFail;
  int error = EIO;
  uint64_t bytes = 0;
};

/// Base of devices that do something to each read of another device, `base`.
/// Subclasses define ReadOnce. There is no descriptor, so that queues read
/// through ReadOnce. Thread-safe if ReadOnce is.
class InterceptingDevice : public BlockDevice {
 public:
  explicit InterceptingDevice(std::unique_ptr<BlockDevice> base)
      : base_(std::move(base)) {}

  uint64_t size_bytes() const final { return base_->size_bytes(); }
  uint32_t alignment() const final { return base_->alignment(); }
  bool direct() const final { return base_->direct(); }
  const std::string& path() const final { return base_->path(); }
  int descriptor() const final { return -1; }

 protected:
  BlockDevice& base() { return *base_; }

 private:
  const std::unique_ptr<BlockDevice> base_;
};

/// A device on top of another one that counts the attempts to read from it and
/// spoils them as told. It has no descriptor, so that queues read through
/// here; a held attempt blocks the thread that makes it, so hold only what a
/// queue of threads reads. Thread-safe.
class FaultyDevice final : public BlockDevice {
 public:
  /// `base` outlives this.
  explicit FaultyDevice(BlockDevice& base) : base_(base) {}

  /// Replaces the fault, and counts from here on.
  void Inject(const DeviceFault& fault) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Lets all held attempts go on, and holds no more.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until `count` attempts are held.
  void WaitUntilHeld(int64_t count) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Attempts, and attempts that were hit, since Inject.
  int64_t attempts() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t hits() const ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t size_bytes() const override { return base_.size_bytes(); }
  uint32_t alignment() const override { return base_.alignment(); }
  bool direct() const override { return base_.direct(); }
  const std::string& path() const override { return base_.path(); }
  int descriptor() const override { return -1; }
  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override;

 private:
  /// Counts an attempt; returns the fault if it hits this attempt.
  std::optional<DeviceFault> Arrive() ABSL_LOCKS_EXCLUDED(mutex_);
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_);

  BlockDevice& base_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::optional<DeviceFault> fault_ ABSL_GUARDED_BY(mutex_);
  int64_t attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t held_ ABSL_GUARDED_BY(mutex_) = 0;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
};

/// Calls of the file system and of its files.
enum class Operation {
  kOpenForRead,
  kRead,
  kInfo,
  kCreate,
  kWrite,  // Append, too.
  kAllocate,
  kSync,
  kClose,
  kMap,
  kStat,
  kRealPath,
  kList,
  kCreateDirectory,
  kRename,
  kRemoveTree,
  kSyncDirectory,
  kFreeBytes,
};

/// The effect of a fault on the operation that it hits.
enum class Effect {
  kFail,         // Nothing is done.
  kTearWrite,    // Half of the bytes are written, then as kFail.
  kCorruptRead,  // Succeeds with one bit flipped. Only reads are hit.
  kLoseReply,    // Done in full, but reported as failed.
  kBlock,        // Waits until the fault is replaced or cleared, then is done.
  kForgetWrite,  // Not done, but reported as done. Only writes are hit.
};

struct Fault {
  /// Number of the operation that is hit, counted from 1 over the operations
  /// that match.
  int64_t nth = 1;
  /// Whether all from the nth on are hit, instead of the nth alone.
  bool for_good = false;
  Effect effect = Effect::kFail;
  /// The status that the caller gets. Unused by kCorruptRead.
  absl::Status status = absl::UnavailableError("injected fault");
  /// Kind of operation that counts; all kinds if absent.
  std::optional<Operation> only = std::nullopt;
  /// End of the paths whose operations count.
  std::string path_end = "";
};

/// A file system on top of another one that counts its calls and fails as told.
/// For the usual test: run with a fault at the 1st, 2nd, 3rd ... operation
/// until no fault is hit. Thread-safe.
class FaultyFileSystem final : public FileSystem {
 public:
  /// A call that arrived, hit or not.
  struct Call {
    Operation operation;
    std::string path;
  };

  /// `base` must outlive this and all files opened through it.
  explicit FaultyFileSystem(FileSystem& base);
  ~FaultyFileSystem() override;

  /// Replaces the fault, and counts from here on.
  void Inject(Fault fault);

  /// Removes the fault.
  void Clear();

  /// Limits the bytes of all writes from here on to `bytes`: a write beyond
  /// fails with RESOURCE_EXHAUSTED after writing what fits. FreeBytes returns
  /// the rest.
  void LimitSpace(uint64_t bytes);

  /// Number of operations that the fault has hit since Inject.
  int64_t hits() const;

  /// Blocks until the fault has hit an operation.
  void AwaitHit() const;

  /// All calls so far.
  std::vector<Call> calls() const;

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(
      const std::string& path) override;
  /// Counts as kOpenForRead.
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForScan(
      const std::string& path) override;
  /// Counts as kOpenForRead; each attempt to read as kRead, which fails with
  /// EIO, whatever the fault's status, and so is made again.
  absl::StatusOr<std::unique_ptr<BlockDevice>> OpenBlockDevice(
      const std::string& path, const BlockDeviceOptions& options) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override;
  /// Counts as kCreate.
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncached(
      const std::string& path) override;
  /// Counts as kCreate.
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<MappedFile>> Map(
      const std::string& path, AccessPattern pattern) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path) override;
  absl::StatusOr<std::string> RealPath(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& directory) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status RemoveTree(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override;

 private:
  class FaultyBlockDevice;
  class FaultyReadableFile;
  class FaultyWritableFile;

  /// Counts a call; returns the fault if it hits this call.
  std::optional<Fault> Arrive(Operation operation, const std::string& path)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes up to `wanted` bytes of the space left; returns how many.
  uint64_t TakeSpace(uint64_t wanted) ABSL_LOCKS_EXCLUDED(mutex_);

  FileSystem& base_;
  mutable absl::Mutex mutex_;
  std::optional<Fault> fault_ ABSL_GUARDED_BY(mutex_);
  int64_t matching_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of faults so far. `changed_` is signalled at another fault and at a
  // hit.
  int64_t faults_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable absl::CondVar changed_;
  std::optional<uint64_t> space_left_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_TESTING_FAULTS_H_
