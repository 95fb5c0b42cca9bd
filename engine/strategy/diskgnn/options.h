#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_OPTIONS_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_OPTIONS_H_

#include <cstdint>
#include <optional>

namespace hearth::strategy {

/// DiskGNN (Liu et al., 2024): offline sampling, four levels of rows, packed
/// batches.
struct DiskgnnOptions {
  /// Rows kept in memory.
  uint64_t cpu_cache_bytes = 0;
  /// Rows kept on the GPU, more popular ones (section 4). Batches are then
  /// brought together there, too.
  uint64_t gpu_cache_bytes = 0;
  /// Rows of the segmented disk cache; absent = as many as the search finds;
  /// 0 = none, so that all are packed.
  std::optional<uint64_t> disk_cache_bytes = std::nullopt;
  /// All that the plan adds to the disk; 0 = no limit but the disk's.
  uint64_t disk_limit_bytes = 0;
  /// The same as a multiple of the features; 0 = none.
  double disk_limit_ratio = 0;
  /// Memory while preparing; kAutoBytes: as much as makes it fast.
  uint64_t prepare_memory_bytes = uint64_t{1} << 30;
  /// Reads of the disk cache that each reading thread keeps in flight.
  int io_depth = 64;

  bool operator==(const DiskgnnOptions&) const = default;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_OPTIONS_H_
