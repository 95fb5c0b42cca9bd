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

/// Short measurements of what disk and processor do, instead of guesses. Each
/// takes a fraction of a second on a disk of a GB/s, and looks at its stop
/// token: CANCELLED.

namespace hearth::strategy {

/// Everything that a probe uses; it outlives the call.
struct ProbeContext {
  io::FileSystem& files;
  io::ReadQueues& read_queues;
  const Clock& clock;
  std::stop_token stop;
};

/// Memory that any of them holds at most.
inline constexpr uint64_t kProbeBytes = uint64_t{160} << 20;

/// Who reads.
struct Streams {
  /// At most 16.
  int threads = 1;
  /// Bytes that were read stay in memory, so that the processor's cache has no
  /// part in it, as in a scan of the features; otherwise each piece replaces
  /// the one before it. For one thread.
  bool at_once = false;
};

/// Bytes that are read in a second from `path`, past the page cache, by threads
/// that each read large pieces of their own part of it: up to 256 MiB in all,
/// spread over the file.
absl::StatusOr<double> ProbeReading(const ProbeContext& context,
                                    const std::string& path,
                                    const Streams& streams);

/// Bytes that are written in a second, durably, to a file of 64 MiB in
/// `folder`, which is removed. RESOURCE_EXHAUSTED if the disk is full.
absl::StatusOr<double> ProbeWriting(const ProbeContext& context,
                                    const std::string& folder);

/// Small reads in a second, in pages spread over `path`, `depth` at a time.
absl::StatusOr<double> ProbePages(const ProbeContext& context,
                                  const std::string& path, int depth);

/// Seconds to bring a row of `format` from memory to its place in a batch.
double ProbeRowCopy(const Clock& clock, const store::RowFormat& format);

/// Seconds to get a byte of memory that was not in use: on virtual machines
/// that is more than to read one. RESOURCE_EXHAUSTED without memory.
absl::StatusOr<double> ProbeMemory(const Clock& clock);

/// Seconds to check a byte that was read.
double ProbeChecksum(const Clock& clock);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_MACHINE_PROBE_H_
