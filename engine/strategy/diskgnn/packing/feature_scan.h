#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_FEATURE_SCAN_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_FEATURE_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/coalesce.h"
#include "engine/io/file_system.h"

namespace hearth::strategy {

/// Reads a feature file once, from one end to the other, in partitions of whole
/// rows, the next ones while one is used. Reads begin and end at page
/// boundaries, so that they pass by the page cache, wherever the rows begin.
/// Single-owner.
class FeatureScan {
 public:
  /// Partitions that are in memory at a time, at most: one that is read, one
  /// that waits, one that is used.
  static constexpr int64_t kPartitionsHeld = 3;

  /// `features` outlives the scan. `partition_nodes` rows at a time.
  /// RESOURCE_EXHAUSTED without memory; DATA_LOSS, naming the file, if it ends
  /// before the last row.
  static absl::StatusOr<FeatureScan> Make(io::ReadableFile& features,
                                          const io::RowLayout& rows,
                                          int64_t partition_nodes);

  /// Rows [first, first + num_rows) of the file, number `index` of the
  /// partitions.
  struct Partition {
    int64_t index = 0;
    int64_t first = 0;
    int64_t num_rows = 0;
    const std::byte* rows = nullptr;
  };

  /// Hands all partitions to `use`, in order, on this thread; its rows stay
  /// until it returns. The first error of reading or of `use`; CANCELLED,
  /// within a few MiB, when `stop` is requested. Call once.
  absl::Status Run(const std::function<absl::Status(const Partition&)>& use,
                   const Clock& clock, const std::stop_token& stop);

  /// The memory of the partitions, once they are not needed any more.
  absl::Span<std::byte> memory() { return memory_.bytes(); }

 private:
  FeatureScan(io::ReadableFile& features, const io::RowLayout& rows,
              int64_t partition_nodes, uint64_t file_bytes,
              io::AlignedMemory memory);

  // Fills that part of the memory whose turn it is.
  absl::Status Read(const std::stop_token& stop, Partition& partition);

  io::ReadableFile* features_;
  io::RowLayout rows_;
  int64_t partition_nodes_;
  uint64_t file_bytes_;
  io::AlignedMemory memory_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_FEATURE_SCAN_H_
