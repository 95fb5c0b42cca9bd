#ifndef HEARTH_ENGINE_STRATEGY_PACKING_DISK_LIMIT_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_DISK_LIMIT_H_

#include <algorithm>
#include <cstdint>

/// The disk limit of strategies that make plans.

namespace hearth::strategy {

/// `ratio` times the bytes of all rows, at least 1; `bytes` without a
/// ratio (0).
inline uint64_t DiskLimitBytes(uint64_t bytes, double ratio, int64_t num_rows,
                               int64_t row_bytes) {
  if (ratio <= 0) return bytes;
  return static_cast<uint64_t>(
      std::max(1.0, ratio * static_cast<double>(num_rows * row_bytes)));
}

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_DISK_LIMIT_H_
