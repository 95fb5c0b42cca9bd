#ifndef HEARTH_ENGINE_IO_READ_QUEUE_H_
#define HEARTH_ENGINE_IO_READ_QUEUE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/block_device.h"
#include "engine/io/uring.h"

namespace hearth::io {

/// Number of upper bounds of latency buckets: 1 microsecond times 2 to the
/// index, 1 us .. 8.4 s. One bucket more is for longer reads.
inline constexpr size_t kLatencyBounds = 24;
double LatencyBoundSeconds(size_t index);

/// Statistics of all reads since the daemon's start.
struct ReadStatistics {
  /// Reads whose results were delivered; failed_reads of them failed.
  int64_t reads = 0;
  int64_t failed_reads = 0;
  /// Attempts made again after EIO or EAGAIN.
  int64_t retries = 0;
  /// Queues whose ring is smaller than their depth, or that read by threads
  /// instead of a ring, because the system had no memory or descriptors for
  /// one.
  int64_t reduced_queues = 0;
  /// Bytes of successful reads, up to the ends of their files.
  int64_t bytes = 0;
  /// Reads in flight now.
  int64_t in_flight = 0;
  /// Seconds that threads waited for queues, summed over threads.
  double wait_seconds = 0;
  /// Histogram of latencies from submission to delivery: latency_counts[i]
  /// reads took at most LatencyBoundSeconds(i) and longer than the bound before
  /// it; the last count is of reads longer than all bounds. Not cumulative,
  /// unlike a Prometheus histogram.
  std::array<int64_t, kLatencyBounds + 1> latency_counts{};
  double latency_seconds = 0;
};

/// Counters of queues. Thread-safe: any number of queues write while a metrics
/// thread reads. Each number is exact; the numbers of a snapshot need not be of
/// one instant.
class ReadCounters {
 public:
  /// `reads` were submitted.
  void Submitted(size_t reads);

  /// One read ended `seconds` after its submission: with `bytes` read, or with
  /// an error.
  void Succeeded(uint64_t bytes, double seconds);
  void Failed(double seconds);

  void Retried();
  void Reduced();
  void Waited(double seconds);

  ReadStatistics Snapshot() const;

 private:
  void Delivered(double seconds);

  std::atomic<int64_t> submitted_{0};
  std::atomic<int64_t> failed_{0};
  std::atomic<int64_t> retries_{0};
  std::atomic<int64_t> reduced_{0};
  std::atomic<int64_t> bytes_{0};
  // Nanoseconds, since there is no portable atomic addition of doubles.
  std::atomic<int64_t> wait_nanoseconds_{0};
  std::atomic<int64_t> latency_nanoseconds_{0};
  std::array<std::atomic<int64_t>, kLatencyBounds + 1> latency_counts_{};
};

/// One read. `offset`, the size of `out` and its address are multiples of the
/// device's alignment.
struct ReadRequest {
  BlockDevice* device = nullptr;
  uint64_t offset = 0;
  /// Not empty. Stays in place until the read's result is delivered.
  absl::Span<std::byte> out;
  /// Given back with the result; free for the caller's use.
  uint64_t tag = 0;
};

/// How one read ended. OK: all bytes up to the end of the file have arrived;
/// the rest of `out` is unspecified (disks write whole sectors). DATA_LOSS: the
/// file has become shorter since it was opened, or ends before `offset`.
/// UNAVAILABLE: EIO. Errors name path and offset.
struct ReadResult {
  uint64_t tag = 0;
  absl::Status status;
};

/// Resources that the kernel has registered, so that each read costs less.
struct Registration {
  bool file = false;
  bool memory = false;
};

/// Reads in flight of one thread. Single-owner: it may go from one thread to
/// another while nothing is in flight. Destroying it waits for the reads in
/// flight. The queue continues short reads at the next aligned offset and after
/// EINTR, and repeats reads that fail with EIO or EAGAIN kMaxReadRetries times
/// (after 4, 16, 64 ms; descriptor.h), while its other reads go on.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;

  /// The most reads in flight.
  virtual size_t depth() const = 0;

  /// Reads submitted whose results have not been delivered.
  virtual size_t in_flight() const = 0;

  /// Starts reads. REQUIRES: in_flight() + requests.size() <= depth().
  /// INVALID_ARGUMENT, and no read is started, if a request is empty or not
  /// aligned.
  virtual absl::Status Submit(absl::Span<const ReadRequest> requests) = 0;

  /// Waits until at least `at_least` reads have ended, or all in flight if
  /// fewer, and replaces `results` by the results of all reads that have ended,
  /// in any order, one for each read. An error means that the kernel refuses
  /// even to wait: reads may still be in flight, and the queue can only be
  /// destroyed.
  virtual absl::Status Wait(size_t at_least,
                            std::vector<ReadResult>& results) = 0;

  /// Makes reads of `device` and into `memory` cheaper until Unregister, where
  /// the kernel and RLIMIT_MEMLOCK allow. Optional.
  virtual Registration Register(BlockDevice& device,
                                absl::Span<std::byte> memory) = 0;

  /// Ends a registration. Call it before the device or the memory is destroyed.
  /// REQUIRES: nothing is in flight, and Register was called with the same
  /// arguments.
  virtual void Unregister(BlockDevice& device,
                          absl::Span<std::byte> memory) = 0;
};

/// The means by which queues read.
enum class ReadQueueKind {
  // io_uring, or threads where the kernel forbids io_uring; threads also for
  // single queues for whose ring the system has no memory or descriptors.
  kAutomatic,
  kIoUring,
  kThreads,
};

struct ReadQueuesOptions {
  ReadQueueKind kind = ReadQueueKind::kAutomatic;
  /// Clock that times reads and waits; outlives the queues.
  const Clock* clock = &Clock::Real();
  RingMaker new_ring = NewKernelRing;
};

/// The greatest depth of a queue.
inline constexpr size_t kMaxReadDepth = 4096;

/// Entries of the smallest ring that is made in place of a larger one: a
/// smaller ring would take as many pages.
inline constexpr size_t kLeastRingEntries = 32;

/// Pool of the daemon's queues, kept warm from one job to the next.
/// Thread-safe. Must outlive all queues taken.
class ReadQueues {
 public:
  /// Gives the queue back.
  struct GiveBack {
    ReadQueues* owner = nullptr;
    void operator()(ReadQueue* queue) const;
  };
  using Handle = std::unique_ptr<ReadQueue, GiveBack>;

  /// UNIMPLEMENTED or PERMISSION_DENIED if kIoUring was asked for and the
  /// kernel refuses.
  static absl::StatusOr<std::unique_ptr<ReadQueues>> Create(
      const ReadQueuesOptions& options = {});

  virtual ~ReadQueues() = default;

  /// A queue of `depth`, warm if the pool has one, with nothing in flight and
  /// nothing registered. Its user waits for all its reads and ends its
  /// registrations before giving it back. INVALID_ARGUMENT for a depth of 0 or
  /// above kMaxReadDepth; RESOURCE_EXHAUSTED if the system has no memory,
  /// descriptors or threads for another queue.
  ///
  /// Where there is no memory for a ring of that depth (RLIMIT_MEMLOCK), warm
  /// queues are destroyed first. Then the ring is halved, down to
  /// kLeastRingEntries; then, unless kIoUring was asked for, threads read. The
  /// queue keeps its depth: reads beyond the ring's entries wait in the queue.
  /// Such a reduced queue is not kept warm.
  virtual absl::StatusOr<Handle> Take(size_t depth) = 0;

  /// "io_uring" or "threads".
  virtual absl::string_view kind() const = 0;

  /// Text for people about the last reduced queue
  /// (ReadStatistics::reduced_queues): how many reads are with the kernel at
  /// once, of what depth, and why. Empty if there was none.
  virtual std::string reduction() const = 0;

  /// Statistics of all queues taken so far.
  virtual ReadStatistics statistics() const = 0;

 private:
  virtual void Return(std::unique_ptr<ReadQueue> queue) = 0;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_QUEUE_H_
