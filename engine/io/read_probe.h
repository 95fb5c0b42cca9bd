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
  /// The most reads in a second, whatever the number in flight.
  double peak_reads_per_second = 0;
  /// The least number of reads in flight, a power of two, with 0.98 of that.
  size_t depth = 1;
  /// The times from submission to completion of the first and of the last of
  /// some reads at this depth.
  double first_seconds = 0;
  double last_seconds = 0;
};

/// The greatest depth that is tried; none after three that gained nothing.
inline constexpr size_t kMostProbedDepth = 1024;

/// Measures reads of `read_bytes`, or a little more, all over `device`, with
/// `depth` in flight, or, for 0, as many as reach the peak, which takes a tenth
/// of a second or so. OK with an empty profile for a device without bytes.
/// CANCELLED when `stop` is requested; errors of reading and as
/// ReadQueues::Take.
absl::StatusOr<ReadProfile> ProbeReads(BlockDevice& device, ReadQueues& queues,
                                       const Clock& clock, uint64_t read_bytes,
                                       size_t depth, std::stop_token stop);

/// How many reads have to overlap for `disks` disks to give the share `share`
/// of their peak (GIDS, section 3.2, equations 2 and 3): with p for the share,
/// P for the peak and T_i, T_t for the times at the beginning and the end,
/// p / (1 - p) P (T_i + T_t). REQUIRES: 0 < share < 1.
int64_t OverlappingReads(const ReadProfile& profile, double share = 0.95,
                         int disks = 1);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_PROBE_H_
