#ifndef HEARTH_ENGINE_IO_FAULTY_DEVICE_H_
#define HEARTH_ENGINE_IO_FAULTY_DEVICE_H_

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/io/block_device.h"

namespace hearth::io {

/// The fate of an attempt to read.
struct DeviceFault {
  enum class Effect {
    kFail,     // The attempt gives `error`.
    kShorten,  // It reads at most `bytes`: 0 is the end of the file.
    kHold,     // It waits for Release, then reads as ever.
  };

  /// The attempt that is hit, counted from 1.
  int64_t nth = 1;
  /// All from the nth on, not it alone.
  bool for_good = false;
  Effect effect = Effect::kFail;
  int error = EIO;
  uint64_t bytes = 0;
};

/// A device on top of another one that counts the attempts to read from it and
/// spoils them as told. It has no descriptor, so that queues read through
/// here; a held attempt blocks the thread that makes it, so hold only what a
/// queue of threads reads. Thread-safe.
class FaultyDevice final : public BlockDevice {
 public:
  /// `base` outlives this.
  explicit FaultyDevice(BlockDevice& base) : base_(base) {}

  /// Replaces the fault there is, and counts from here on.
  void Inject(const DeviceFault& fault) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Lets all held attempts go on, and holds no more.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until `count` attempts are held.
  void WaitUntilHeld(int64_t count) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Attempts, and how many of them were hit, since Inject.
  int64_t attempts() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t hits() const ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t size_bytes() const override { return base_.size_bytes(); }
  uint32_t alignment() const override { return base_.alignment(); }
  bool direct() const override { return base_.direct(); }
  const std::string& path() const override { return base_.path(); }
  int descriptor() const override { return -1; }
  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override;

 private:
  /// Counts an attempt; the fault, if it hits this one.
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

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_FAULTY_DEVICE_H_
