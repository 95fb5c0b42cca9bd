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

/// Upper bounds of latencies: 1 microsecond times 2 to the index, 1 us .. 8.4
/// s; one bucket more is for what took longer.
inline constexpr size_t kLatencyBounds = 24;
double LatencyBoundSeconds(size_t index);

/// Statistics of all reads since the daemon's start.
struct ReadStatistics {
  /// Reads whose results were delivered; those among them that failed.
  int64_t reads = 0;
  int64_t failed_reads = 0;
  /// Attempts made again after EIO or EAGAIN.
  int64_t retries = 0;
  /// Queues that got a smaller ring than they are deep, or threads in place of
  /// a ring, since the system had no memory or descriptors for it.
  int64_t reduced_queues = 0;
  /// Bytes of the reads that did not fail, up to the ends of their files.
  int64_t bytes = 0;
  /// Reads in flight now.
  int64_t in_flight = 0;
  /// Seconds in which a thread waited for a queue, of all threads.
  double wait_seconds = 0;
  /// Latencies from submission to delivery: latency_counts[i] reads took at
  /// most LatencyBoundSeconds(i) and longer than the bound before; the last
  /// took longer than all bounds. A Prometheus histogram sums them up.
  std::array<int64_t, kLatencyBounds + 1> latency_counts{};
  double latency_seconds = 0;
};

/// The counters of queues. Thread-safe: any number of queues write while a
/// metrics thread reads; each number is exact, a snapshot need not be of one
/// instant.
class ReadCounters {
 public:
  /// `reads` were submitted.
  void Submitted(size_t reads);

  /// `reads` failed ones, or `bytes` of one that did not, `seconds` after
  /// their submission.
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

/// The means by which queues read.
enum class ReadQueueKind {
  // io_uring, or threads where the kernel forbids it; threads also for a queue
  // that the system has no memory or descriptors for a ring for.
  kAutomatic,
  kIoUring,
  kThreads,
};

struct ReadQueuesOptions {
  ReadQueueKind kind = ReadQueueKind::kAutomatic;
  /// Times reads and waits; outlives the queues.
  const Clock* clock = &Clock::Real();
  RingMaker new_ring = NewKernelRing;
};

/// The deepest queue there is.
inline constexpr size_t kMaxReadDepth = 4096;

/// The smallest ring that is made in place of a larger one: smaller ones take
/// as many pages.
inline constexpr size_t kLeastRingEntries = 32;

/// The daemon's queues, kept warm from one job to the next. Thread-safe. Must
/// outlive all queues taken.
class ReadQueues {
 public:
  /// Gives the queue back.
  struct GiveBack {
    ReadQueues* owner = nullptr;
    void operator()(ReadQueue* queue) const;
  };
  using Handle = std::unique_ptr<ReadQueue, GiveBack>;

  /// UNIMPLEMENTED or PERMISSION_DENIED if io_uring is asked for and cannot be
  /// had.
  static absl::StatusOr<std::unique_ptr<ReadQueues>> Create(
      const ReadQueuesOptions& options = {});

  virtual ~ReadQueues() = default;

  /// A queue of `depth`, warm if there is one, with nothing in flight and
  /// nothing registered. Who takes it waits for all it submitted and ends its
  /// registrations before giving it back. INVALID_ARGUMENT for a depth of 0 or
  /// above kMaxReadDepth; RESOURCE_EXHAUSTED if the system has no memory,
  /// descriptors or threads for another.
  ///
  /// Where there is no memory for a ring as deep (RLIMIT_MEMLOCK), warm queues
  /// go first. Then the ring is halved, down to kLeastRingEntries; then, unless
  /// kIoUring was asked for, threads read. The queue is as deep in any case:
  /// reads that are too many at once wait in it. Such a queue is not kept warm.
  virtual absl::StatusOr<Handle> Take(size_t depth) = 0;

  /// "io_uring" or "threads".
  virtual absl::string_view kind() const = 0;

  /// The last queue of ReadStatistics::reduced_queues, for people: how many
  /// reads are with the kernel at once, of how many, and why; empty if there
  /// was none.
  virtual std::string reduction() const = 0;

  /// Statistics of all queues taken so far.
  virtual ReadStatistics statistics() const = 0;

 private:
  virtual void Return(std::unique_ptr<ReadQueue> queue) = 0;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_QUEUE_H_
