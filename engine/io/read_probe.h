#ifndef HEARTH_ENGINE_IO_READ_PROBE_H_
#define HEARTH_ENGINE_IO_READ_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/block_device.h"
#include "engine/io/read_queue.h"

namespace hearth::io {

/// How a disk answers small reads at random places.
struct ReadProfile {
  /// Most reads per second, over all depths tried.
  double peak_reads_per_second = 0;
  /// Least number of reads in flight, a power of two, that reaches 0.98 of the
  /// peak.
  size_t depth = 1;
  /// Seconds from submission to completion of the first read, and of the last
  /// read, of a measurement at this depth.
  double first_seconds = 0;
  double last_seconds = 0;
};

/// Greatest depth that is tried; the search ends earlier, after three depths
/// without gain.
inline constexpr size_t kMostProbedDepth = 1024;

/// Measures reads of `read_bytes`, or a little more, all over `device`, with
/// `depth` in flight; for depth 0, searches the depth that reaches the peak, in
/// a tenth of a second or so. `seed` chooses the places. OK with an empty
/// profile for an empty device. CANCELLED when `stop` is requested; errors of
/// reading and of ReadQueues::Take.
absl::StatusOr<ReadProfile> ProbeReads(BlockDevice& device, ReadQueues& queues,
                                       const Clock& clock, uint64_t read_bytes,
                                       size_t depth, std::stop_token stop,
                                       uint64_t seed = 1);

/// Number of reads that must overlap for `disks` disks to give `share` of their
/// peak (GIDS, section 3.2, equations 2 and 3): with p for the share, P for the
/// peak and T_i, T_t for the times at the beginning and the end, p / (1 - p) P
/// (T_i + T_t). REQUIRES: 0 < share < 1.
int64_t OverlappingReads(const ReadProfile& profile, double share = 0.95,
                         int disks = 1);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_PROBE_H_
