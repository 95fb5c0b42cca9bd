#ifndef HEARTH_ENGINE_IO_BLOCK_DEVICE_H_
#define HEARTH_ENGINE_IO_BLOCK_DEVICE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace hearth::io {

struct BlockDeviceOptions {
  /// Reads go through the page cache, though the file system could do without.
  /// For comparisons, and for files that are read again and fit in memory.
  bool buffered = false;
};

class BlockDevice;

/// A place in a file: a device that is one file, and an offset in it.
struct DevicePart {
  BlockDevice* device = nullptr;
  uint64_t offset = 0;
};

/// A regular file opened for random reads past the page cache, by
/// FileSystem::OpenBlockDevice; or several files as one device. Reads go
/// through a ReadQueue. Thread-safe. Closes when destroyed, which must be after
/// its last read is done.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  /// The file's size when it was opened.
  virtual uint64_t size_bytes() const = 0;

  /// Offset, length and memory address of every read are multiples of this
  /// power of two; 1 if not direct.
  virtual uint32_t alignment() const = 0;

  /// Whether reads go past the page cache.
  virtual bool direct() const = 0;

  /// The file, and the place in it, that `offset` of this device stands for.
  /// Queues read from there. Differs from {this, offset} only for devices made
  /// of several files.
  virtual DevicePart PartAt(uint64_t offset) { return {this, offset}; }

  /// All files that PartAt leads to: this device, or the several that it is
  /// made of.
  virtual std::vector<BlockDevice*> Files() { return {this}; }

  /// Path of the file, for messages.
  virtual const std::string& path() const = 0;

  /// File descriptor for queues; -1 if queues must call ReadOnce, because the
  /// bytes are in memory or faults are injected.
  virtual int descriptor() const = 0;

  /// One attempt to read, as pread: bytes read, which may be fewer than asked
  /// for, 0 at the end of the file, or a negative errno. Blocks. For queues
  /// only.
  virtual ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) = 0;
};

/// Device whose bytes are `contents`. Direct if `alignment`, a power of two, is
/// above 1; unaligned reads then fail with -EINVAL, as on a disk. For tests.
std::unique_ptr<BlockDevice> NewMemoryDevice(std::string contents,
                                             uint32_t alignment = 512,
                                             std::string path = "memory");

/// Offset of part `part` of a joined device: parts begin 16 TiB apart, further
/// than any file or read is long.
inline constexpr uint64_t JoinedPartOffset(size_t part) {
  return static_cast<uint64_t>(part) << 44;
}

/// Several devices as one: `parts[i]` lies at JoinedPartOffset(i). REQUIRES:
/// `parts` is not empty.
std::unique_ptr<BlockDevice> NewJoinedDevice(
    std::vector<std::unique_ptr<BlockDevice>> parts);

/// Bytes between two stripes of a striped device, which are in no file.
/// Neighboring stripes are in different files: the gap is longer than what a
/// request costs in bytes (ReadCost), so that no planned read spans it. A
/// multiple of any alignment.
inline constexpr uint64_t kStripeGapBytes = 128 << 10;

/// Several files as one device, to read from all of their disks. Of n files,
/// file s % n has stripe s as its stripe s / n (from 0); on the device, stripe
/// s lies at s * (stripe_bytes + kStripeGapBytes). The last stripe may be
/// short. REQUIRES: `files` is not empty; stripe_bytes is positive and a
/// multiple of the files' alignment.
std::unique_ptr<BlockDevice> NewStripedDevice(
    std::vector<std::unique_ptr<BlockDevice>> files, uint64_t stripe_bytes);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_BLOCK_DEVICE_H_
