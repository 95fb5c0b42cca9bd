#ifndef HEARTH_ENGINE_MACHINE_MACHINE_PROBE_H_
#define HEARTH_ENGINE_MACHINE_MACHINE_PROBE_H_

#include <cstdint>
#include <limits>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/store/feature_rows.h"

/// Short measurements of disk, memory and processor for forecasts. Each takes a
/// fraction of a second on a disk of 1 GB/s, and is cut short on slower ones
/// where it is given a time; those with a context are CANCELLED when its stop
/// is requested.

namespace hearth::machine {

/// Everything that a probe uses. Outlives the call.
struct ProbeContext {
  io::FileSystem& files;
  io::ReadQueues& read_queues;
  const Clock& clock;
  std::stop_token stop;
};

/// Time without end, for probes.
inline constexpr double kUnlimitedSeconds =
    std::numeric_limits<double>::infinity();

/// Memory that any probe holds at most.
inline constexpr uint64_t kProbeBytes = uint64_t{160} << 20;

/// The readers of ProbeReading.
struct Streams {
  /// At most 16.
  int threads = 1;
  /// Keep 128 MiB of what was read, as a scan of the features does, so that
  /// writes to memory count, not to the processor's cache; otherwise each piece
  /// overwrites the one before. For one thread.
  bool at_once = false;
  /// Seconds after which no further piece is begun.
  double most_seconds = kUnlimitedSeconds;
};

/// Bytes per second read from `path`, past the page cache, by threads that each
/// read large pieces of their own part of the file: up to 256 MiB in all,
/// spread over the file.
absl::StatusOr<double> ProbeReading(const ProbeContext& context,
                                    const std::string& path,
                                    const Streams& streams);

/// Bytes per second written durably to a file of 64 MiB in `folder`, or of as
/// much as is written in `most_seconds`. The file is removed.
/// RESOURCE_EXHAUSTED if the disk is full.
absl::StatusOr<double> ProbeWriting(const ProbeContext& context,
                                    const std::string& folder,
                                    double most_seconds = kUnlimitedSeconds);

/// Reads per second of 4 KiB pages spread over `path`, `depth` in flight.
absl::StatusOr<double> ProbePages(const ProbeContext& context,
                                  const std::string& path, int depth);

/// Seconds to copy a row of `format` from memory to its place in a batch.
double ProbeRowCopy(const Clock& clock, const store::RowFormat& format);

/// Seconds per byte to get memory that was not in use, which takes longer than
/// reading it on virtual machines. RESOURCE_EXHAUSTED without memory.
absl::StatusOr<double> ProbeMemory(const Clock& clock);

/// Seconds per byte of a CRC32C.
double ProbeChecksum(const Clock& clock);

}  // namespace hearth::machine

#endif  // HEARTH_ENGINE_MACHINE_MACHINE_PROBE_H_
