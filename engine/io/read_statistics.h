#ifndef HEARTH_ENGINE_IO_READ_STATISTICS_H_
#define HEARTH_ENGINE_IO_READ_STATISTICS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

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

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_STATISTICS_H_
