#include "engine/io/read_statistics.h"

#include <algorithm>
#include <cmath>

namespace hearth::io {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

int64_t Nanoseconds(double seconds) {
  return static_cast<int64_t>(std::max(seconds, 0.0) * 1e9);
}

/// The first bound that is not below.
size_t Bucket(int64_t nanoseconds) {
  size_t index = 0;
  for (int64_t bound = 1000; index < kLatencyBounds && nanoseconds > bound;
       bound *= 2) {
    ++index;
  }
  return index;
}

}  // namespace

double LatencyBoundSeconds(size_t index) {
  return std::ldexp(1e-6, static_cast<int>(index));
}

void ReadCounters::Submitted(size_t reads) {
  submitted_.fetch_add(static_cast<int64_t>(reads), kRelaxed);
}

void ReadCounters::Succeeded(uint64_t bytes, double seconds) {
  bytes_.fetch_add(static_cast<int64_t>(bytes), kRelaxed);
  Delivered(seconds);
}

void ReadCounters::Failed(double seconds) {
  failed_.fetch_add(1, kRelaxed);
  Delivered(seconds);
}

void ReadCounters::Delivered(double seconds) {
  const int64_t nanoseconds = Nanoseconds(seconds);
  latency_nanoseconds_.fetch_add(nanoseconds, kRelaxed);
  // Release, with the acquire in Snapshot: a read counted here was submitted.
  latency_counts_[Bucket(nanoseconds)].fetch_add(1, std::memory_order_release);
}

void ReadCounters::Retried() { retries_.fetch_add(1, kRelaxed); }

void ReadCounters::Reduced() { reduced_.fetch_add(1, kRelaxed); }

void ReadCounters::Waited(double seconds) {
  wait_nanoseconds_.fetch_add(Nanoseconds(seconds), kRelaxed);
}

ReadStatistics ReadCounters::Snapshot() const {
  ReadStatistics statistics;
  for (size_t i = 0; i < latency_counts_.size(); ++i) {
    const int64_t count = latency_counts_[i].load(std::memory_order_acquire);
    statistics.latency_counts[i] = count;
    statistics.reads += count;
  }
  statistics.failed_reads = failed_.load(kRelaxed);
  statistics.retries = retries_.load(kRelaxed);
  statistics.reduced_queues = reduced_.load(kRelaxed);
  statistics.bytes = bytes_.load(kRelaxed);
  statistics.in_flight = submitted_.load(kRelaxed) - statistics.reads;
  statistics.wait_seconds =
      static_cast<double>(wait_nanoseconds_.load(kRelaxed)) * 1e-9;
  statistics.latency_seconds =
      static_cast<double>(latency_nanoseconds_.load(kRelaxed)) * 1e-9;
  return statistics;
}

}  // namespace hearth::io
