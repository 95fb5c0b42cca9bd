#ifndef HEARTH_ENGINE_STRATEGY_PACKING_FEATURE_SCAN_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_FEATURE_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"

/// One sequential read of a feature file (FeatureScan).

namespace hearth::strategy {

/// Reads a feature file once, from beginning to end, in partitions of whole
/// rows, reading ahead while one is used. Reads begin and end at page
/// boundaries, so that they bypass the page cache, wherever rows begin.
/// Single-owner.
class FeatureScan {
 public:
  /// Partitions in memory at most: one is read, one waits, one is used.
  static constexpr int64_t kPartitionsHeld = 3;

  /// A scan by partitions of `partition_nodes` rows. `features` outlives it.
  /// RESOURCE_EXHAUSTED without memory; DATA_LOSS, naming the file, if it ends
  /// before the last row.
  static absl::StatusOr<FeatureScan> Make(io::ReadableFile& features,
                                          const io::RowLayout& rows,
                                          int64_t partition_nodes);

  /// Partition `index`: rows [first, first + num_rows) of the file.
  struct Partition {
    int64_t index = 0;
    int64_t first = 0;
    int64_t num_rows = 0;
    const std::byte* rows = nullptr;
  };

  /// Calls `use` with each partition, in order, on the caller's thread; the
  /// rows are valid during the call. Returns the first error of reading or of
  /// `use`; CANCELLED, within a few MiB, when `stop` is requested. Call once.
  absl::Status Run(const std::function<absl::Status(const Partition&)>& use,
                   const Clock& clock, const std::stop_token& stop);

  /// Bytes per second at which Run read, while it did; absent if it read too
  /// little to tell something about the disk.
  std::optional<double> TellingRate() const;

  /// The memory of the partitions, for reuse after Run.
  absl::Span<std::byte> memory() { return memory_.bytes(); }

 private:
  FeatureScan(io::ReadableFile& features, const io::RowLayout& rows,
              int64_t partition_nodes, uint64_t file_bytes,
              io::AlignedMemory memory);

  // Reads the next partition into its third of the memory.
  absl::Status Read(const Clock& clock, const std::stop_token& stop,
                    Partition& partition);

  io::ReadableFile* features_;
  io::RowLayout rows_;
  int64_t partition_nodes_;
  uint64_t file_bytes_;
  io::AlignedMemory memory_;
  uint64_t read_bytes_ = 0;
  double read_seconds_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_FEATURE_SCAN_H_
