#ifndef HEARTH_ENGINE_IO_READ_QUEUE_H_
#define HEARTH_ENGINE_IO_READ_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"

namespace hearth::io {

/// One read. `offset`, the size of `out` and its address are multiples of the
/// device's alignment.
struct ReadRequest {
  BlockDevice* device = nullptr;
  uint64_t offset = 0;
  /// Not empty. Stays in place until the read's result is delivered.
  absl::Span<std::byte> out;
  /// Whatever the caller wants back with the result.
  uint64_t tag = 0;
};

/// How one read ended. OK: all bytes that lie in the file have arrived; what
/// `out` holds past its end is unspecified (disks write whole sectors).
/// DATA_LOSS: the file ends where it
/// did not when it was opened, or before `offset`. UNAVAILABLE: EIO.
/// Everything names path and offset.
struct ReadResult {
  uint64_t tag = 0;
  absl::Status status;
};

/// The resources that the kernel registered, so that each read costs less.
struct Registration {
  bool file = false;
  bool memory = false;
};

/// Reads in flight of one thread. Single-owner: it may go from one thread to
/// another while nothing is in flight. Destroying it waits for what is.
/// Within it short reads go on at the next aligned offset, EINTR is taken up
/// again, and EIO and EAGAIN are tried again kMaxReadRetries times (4, 16,
/// 64 ms; see transfer.h), while the other reads go on.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;

  /// The most reads in flight.
  virtual size_t depth() const = 0;

  /// Reads submitted whose results have not been delivered.
  virtual size_t in_flight() const = 0;

  /// Starts reads. REQUIRES: in_flight() + requests.size() <= depth().
  /// INVALID_ARGUMENT, and none is started, if one is empty or not aligned.
  virtual absl::Status Submit(absl::Span<const ReadRequest> requests) = 0;

  /// Waits until at least `at_least` results are there, or those of all reads
  /// in flight if these are fewer, and replaces `results` by all there are, in
  /// any order, one for each read. An error means that the kernel takes no
  /// waiting either: reads may be in flight still, and nothing but destroying
  /// the queue is left to do.
  virtual absl::Status Wait(size_t at_least,
                            std::vector<ReadResult>& results) = 0;

  /// Makes reads of `device` and into `memory` cheaper until Unregister, where
  /// the kernel and RLIMIT_MEMLOCK allow; reads work without, too.
  virtual Registration Register(BlockDevice& device,
                                absl::Span<std::byte> memory) = 0;

  /// Ends a registration; before the device or the memory goes. REQUIRES:
  /// nothing is in flight, and Register was called with the same arguments.
  virtual void Unregister(BlockDevice& device,
                          absl::Span<std::byte> memory) = 0;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_QUEUE_H_
