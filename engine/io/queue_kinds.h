#ifndef HEARTH_ENGINE_IO_QUEUE_KINDS_H_
#define HEARTH_ENGINE_IO_QUEUE_KINDS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/read_queue.h"
#include "engine/io/uring.h"

namespace hearth::io {

/// Progress of one read of a queue: says what to do after each attempt's
/// outcome. Does no I/O itself. Single-owner.
///
///   kRead  -- some bytes, EINTR --> kRead, at the next aligned offset
///   kRead  -- EIO, EAGAIN -------> kRetry (after a delay) or kDone (the 4th)
///   kRead  -- all bytes, error --> kDone
class ReadProgress {
 public:
  enum class Next { kRead, kRetry, kDone };

  ReadProgress() = default;
  explicit ReadProgress(const ReadRequest& request)
      : request_(request), offset_(request.offset) {}

  /// Device, offset and memory of the next attempt.
  BlockDevice& device() const { return *request_.device; }
  uint64_t offset() const { return offset_; }
  absl::Span<std::byte> out() const;

  /// Takes an attempt's outcome: bytes read, or a negative errno.
  Next Advance(ssize_t outcome);

  /// Ends the read with `error`; adds file and offset to its message.
  void Fail(const absl::Status& error);

  /// The number of the next repetition, 1 .. kMaxReadRetries, for RetryDelay.
  int retry() const { return retry_; }

  uint64_t tag() const { return request_.tag; }

  /// Once done: the read's status, and the bytes that the file had for it.
  const absl::Status& status() const { return status_; }
  uint64_t bytes() const { return End() - request_.offset; }

 private:
  /// End of the request or of the file, whichever comes first.
  uint64_t End() const;
  Next Advanced(uint64_t count);
  Next Retry(int error);
  Next EndAt(uint64_t offset);

  ReadRequest request_;
  uint64_t offset_ = 0;
  int retry_ = 0;
  absl::Status status_;
};

/// The result of a read that is done, counted as delivered `seconds` after its
/// submission.
ReadResult Deliver(const ReadProgress& progress, double seconds,
                   ReadCounters& counters);

/// INVALID_ARGUMENT for what ReadQueue::Submit refuses: an empty or unaligned
/// request, or more than `free`.
absl::Status CheckRequests(absl::Span<const ReadRequest> requests, size_t free);

/// The most threads of one queue; in a deeper queue the other reads wait.
inline constexpr size_t kMaxReadThreads = 64;

/// A queue that reads by threads of its own, which block in pread: for kernels
/// that forbid io_uring or have no memory for a ring. Registers nothing.
/// `counters` and `clock` outlive it. RESOURCE_EXHAUSTED if the system gives no
/// threads.
absl::StatusOr<std::unique_ptr<ReadQueue>> NewThreadQueue(
    size_t depth, ReadCounters& counters, const Clock& clock = Clock::Real());

/// A queue over a ring made for `entries` or more, at least 1; reads beyond
/// `entries` wait in the queue. A device without a descriptor is read during
/// Submit. `counters` and `clock` outlive it.
std::unique_ptr<ReadQueue> NewUringQueue(std::unique_ptr<Ring> ring,
                                         size_t entries, size_t depth,
                                         ReadCounters& counters,
                                         const Clock& clock = Clock::Real());

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_QUEUE_KINDS_H_
