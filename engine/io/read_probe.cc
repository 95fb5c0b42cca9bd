#include "engine/io/read_probe.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/read_queue.h"

namespace hearth::io {
namespace {

// A measurement lasts at least kLeastSeconds and a number of reads for each
// read in flight, within an upper limit.
constexpr double kLeastSeconds = 0.02;
constexpr size_t kLeastReads = 256;
constexpr size_t kReadsPerDepth = 4;
constexpr double kMostSeconds = 0.1;
constexpr size_t kMostReads = 1 << 16;
// Repetitions of the measurement of first and last read; odd, for the median.
constexpr int kRepetitions = 3;
constexpr double kShareOfPeak = 0.98;
// Depths in a row, each twice the one before, without a higher rate, after
// which the search ends.
constexpr int kDepthsWithoutGain = 3;
// Least duration in seconds, so that no rate is infinite.
constexpr double kTick = 1e-7;

// Result of one measurement.
struct Burst {
  double reads_per_second = 0;
  double first_seconds = 0;
  double last_seconds = 0;
};

class Prober {
 public:
  Prober(BlockDevice& device, ReadQueue& queue, const Clock& clock,
         uint64_t read_bytes, std::stop_token stop,
         absl::Span<std::byte> memory, uint64_t seed)
      : device_(device),
        queue_(queue),
        clock_(clock),
        read_bytes_(read_bytes),
        stop_(std::move(stop)),
        memory_(memory),
        random_(seed, RandomPurpose::kGenerator) {
    queue_.Register(device_, memory_);
  }
  ~Prober() { queue_.Unregister(device_, memory_); }

  // The profile of the depth that reaches the peak.
  absl::StatusOr<ReadProfile> Search() {
    std::vector<double> rates;
    double peak = 0;
    int without_gain = 0;
    for (size_t depth = 1;
         depth <= kMostProbedDepth && without_gain < kDepthsWithoutGain;
         depth *= 2) {
      HEARTH_ASSIGN_OR_RETURN(const Burst burst, Measure(depth));
      rates.push_back(burst.reads_per_second);
      without_gain = rates.back() > peak ? 0 : without_gain + 1;
      peak = std::max(peak, rates.back());
    }
    size_t depth = 1;
    for (size_t i = 0; rates[i] < kShareOfPeak * peak; ++i) depth *= 2;
    HEARTH_ASSIGN_OR_RETURN(ReadProfile profile, MeasureDepth(depth));
    profile.peak_reads_per_second = peak;
    return profile;
  }

  absl::StatusOr<ReadProfile> MeasureDepth(size_t depth) {
    std::vector<double> rates;
    std::vector<double> first;
    std::vector<double> last;
    for (int i = 0; i < kRepetitions; ++i) {
      HEARTH_ASSIGN_OR_RETURN(const Burst burst, Measure(depth));
      rates.push_back(burst.reads_per_second);
      first.push_back(burst.first_seconds);
      last.push_back(burst.last_seconds);
    }
    return ReadProfile{.peak_reads_per_second = Median(rates),
                       .depth = depth,
                       .first_seconds = Median(first),
                       .last_seconds = Median(last)};
  }

 private:
  static double Median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + kRepetitions / 2,
                     values.end());
    return values[kRepetitions / 2];
  }

  absl::StatusOr<Burst> Measure(size_t depth) {
    if (stop_.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(device_.path(), ": measuring was stopped on request"));
    }
    absl::StatusOr<Burst> burst = ReadSome(depth);
    // Whatever failed, no read stays in flight.
    while (queue_.in_flight() > 0) {
      HEARTH_RETURN_IF_ERROR(queue_.Wait(queue_.in_flight(), results_));
    }
    return burst;
  }

  absl::StatusOr<Burst> ReadSome(size_t depth) {
    const size_t least = std::max(kLeastReads, kReadsPerDepth * depth);
    Burst burst;
    size_t submitted = 0;
    size_t completed = 0;
    // When the first read ended; when the last read began, and how many had
    // ended by then.
    const double start = clock_.SteadySeconds();
    double first = start;
    double now = start;
    double last_submitted = start;
    size_t completed_by_then = 0;
    std::vector<size_t> free(depth);
    for (size_t i = 0; i < depth; ++i) free[i] = i;
    while (true) {
      const bool goes_on = submitted < kMostReads &&
                           now - start < kMostSeconds &&
                           (submitted < least || now - start < kLeastSeconds);
      requests_.clear();
      while (goes_on && !free.empty()) {
        requests_.push_back(NextRequest(free.back()));
        free.pop_back();
        ++submitted;
      }
      if (!requests_.empty()) {
        last_submitted = clock_.SteadySeconds();
        completed_by_then = completed;
        HEARTH_RETURN_IF_ERROR(queue_.Submit(requests_));
      }
      if (queue_.in_flight() == 0) break;
      HEARTH_RETURN_IF_ERROR(queue_.Wait(1, results_));
      now = clock_.SteadySeconds();
      if (completed == 0) first = now;
      for (const ReadResult& result : results_) {
        HEARTH_RETURN_IF_ERROR(result.status);
        free.push_back(result.tag);
        ++completed;
      }
    }
    burst.first_seconds = first - start;
    burst.last_seconds = now - last_submitted;
    // The rate of the steady state, if there was one.
    burst.reads_per_second =
        last_submitted > first
            ? static_cast<double>(completed_by_then) /
                  std::max(kTick, last_submitted - first)
            : static_cast<double>(completed) / std::max(kTick, now - start);
    return burst;
  }

  ReadRequest NextRequest(size_t slot) {
    const uint64_t places = device_.size_bytes() / read_bytes_;
    return {
        .device = &device_,
        .offset = random_.Below(std::max<uint64_t>(1, places)) * read_bytes_,
        .out = memory_.subspan(slot * read_bytes_, read_bytes_),
        .tag = slot};
  }

  BlockDevice& device_;
  ReadQueue& queue_;
  const Clock& clock_;
  const uint64_t read_bytes_;
  const std::stop_token stop_;
  const absl::Span<std::byte> memory_;
  RandomStream random_;
  std::vector<ReadRequest> requests_;
  std::vector<ReadResult> results_;
};

}  // namespace

absl::StatusOr<ReadProfile> ProbeReads(BlockDevice& device, ReadQueues& queues,
                                       const Clock& clock, uint64_t read_bytes,
                                       size_t depth, std::stop_token stop,
                                       uint64_t seed) {
  if (device.size_bytes() == 0) return ReadProfile();
  const uint64_t unit = device.alignment();
  const uint64_t bytes = std::max(unit, (read_bytes + unit - 1) / unit * unit);
  const size_t most = depth > 0 ? depth : kMostProbedDepth;
  HEARTH_ASSIGN_OR_RETURN(AlignedMemory memory,
                          AlignedMemory::Allocate(most * bytes));
  HEARTH_ASSIGN_OR_RETURN(const ReadQueues::Handle queue, queues.Take(most));
  Prober prober(device, *queue, clock, bytes, std::move(stop), memory.bytes(),
                seed);
  return depth > 0 ? prober.MeasureDepth(depth) : prober.Search();
}

int64_t OverlappingReads(const ReadProfile& profile, double share, int disks) {
  return static_cast<int64_t>(
      std::ceil(share / (1 - share) * profile.peak_reads_per_second *
                (profile.first_seconds + profile.last_seconds) * disks));
}

}  // namespace hearth::io
