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

/// A place on a device.
struct DevicePart {
  BlockDevice* device = nullptr;
  uint64_t offset = 0;
};

/// A regular file opened for random reads past the page cache; reads are made
/// through a ReadQueue. Opened by FileSystem::OpenBlockDevice. Thread-safe.
/// Closes when destroyed: after the last read of it is done.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  /// The file's size when it was opened.
  virtual uint64_t size_bytes() const = 0;

  /// The unit of which offset, length and memory of every read are a multiple:
  /// a power of two; 1 if not direct.
  virtual uint32_t alignment() const = 0;

  /// Whether reads go past the page cache.
  virtual bool direct() const = 0;

  /// The file, and the place in it, of what lies at `offset`: this one, except
  /// where a device joins several (joined_device.h). Queues read from these.
  virtual DevicePart PartAt(uint64_t offset) { return {this, offset}; }

  /// All files that PartAt leads to: this one, except where a device joins
  /// several.
  virtual std::vector<BlockDevice*> Files() { return {this}; }

  /// Its path, for messages.
  virtual const std::string& path() const = 0;

  /// The descriptor for queues that read by it; -1 if reads must go through
  /// ReadOnce: where the bytes are in memory, or faults are injected.
  virtual int descriptor() const = 0;

  /// One attempt, as pread: the bytes read, which may be fewer than asked, 0 at
  /// the end of the file, or a negative errno. Blocks. For queues alone.
  virtual ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) = 0;
};

/// A device whose bytes are `contents`. It says that it is direct if its
/// alignment, a power of two, is above 1, and refuses as a disk would
/// (-EINVAL) what is not aligned. For tests.
std::unique_ptr<BlockDevice> NewMemoryDevice(std::string contents,
                                             uint32_t alignment = 512,
                                             std::string path = "memory");

/// Where part `part` of a joined device begins: 16 TiB after the one before it,
/// further than any file or read is long.
inline constexpr uint64_t JoinedPartOffset(size_t part) {
  return static_cast<uint64_t>(part) << 44;
}

/// Several devices as one: `parts[i]` lies at JoinedPartOffset(i). Reads
/// through queues go to their files (BlockDevice::PartAt). REQUIRES: there is a
/// part.
std::unique_ptr<BlockDevice> NewJoinedDevice(
    std::vector<std::unique_ptr<BlockDevice>> parts);

/// The bytes that lie between two stripes of a striped device, in no file. A
/// gap is longer than what a request costs in bytes (ReadCost), so that no
/// planned read goes from one stripe to the next, which is in another file; and
/// it is a multiple of any alignment.
inline constexpr uint64_t kStripeGapBytes = 128 << 10;

/// Several files as one device, to read from all of their disks: stripe s, of
/// `stripe_bytes`, is the (s / n)th of file s % n, for n files, and lies at
/// s * (stripe_bytes + kStripeGapBytes) of the device. The last stripe may be
/// short. Reads through queues go to the files (BlockDevice::PartAt). REQUIRES:
/// there is a file, and a stripe has bytes: a multiple of the files' alignment.
std::unique_ptr<BlockDevice> NewStripedDevice(
    std::vector<std::unique_ptr<BlockDevice>> files, uint64_t stripe_bytes);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_BLOCK_DEVICE_H_
