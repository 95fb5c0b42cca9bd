#ifndef HEARTH_ENGINE_STRATEGY_MACHINE_PROBE_H_
#define HEARTH_ENGINE_STRATEGY_MACHINE_PROBE_H_

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/store/feature_rows.h"

/// Short measurements of disk, memory and processor for forecasts. Each takes a
/// fraction of a second on a disk of 1 GB/s; those with a context are CANCELLED
/// when its stop is requested.

namespace hearth::strategy {

/// Everything that a probe uses. Outlives the call.
struct ProbeContext {
  io::FileSystem& files;
  io::ReadQueues& read_queues;
  const Clock& clock;
  std::stop_token stop;
};

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
};

/// Bytes per second read from `path`, past the page cache, by threads that each
/// read large pieces of their own part of the file: up to 256 MiB in all,
/// spread over the file.
absl::StatusOr<double> ProbeReading(const ProbeContext& context,
                                    const std::string& path,
                                    const Streams& streams);

/// Bytes per second written durably to a file of 64 MiB in `folder`. The file
/// is removed. RESOURCE_EXHAUSTED if the disk is full.
absl::StatusOr<double> ProbeWriting(const ProbeContext& context,
                                    const std::string& folder);

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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_MACHINE_PROBE_H_
