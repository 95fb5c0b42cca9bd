#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_OPTIONS_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_OPTIONS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace hearth::strategy {

/// The order in which lists are taken into the neighbor cache.
enum class NeighborRank {
  /// By out-degree over in-degree (Ginex, section 3.2).
  kRatio,
  /// By neighbors in other parts of the partition (OUTRE, section 4.2).
  kCross,
};

/// The options that all strategies have which sample superbatches ahead.
struct SuperbatchOptions {
  /// Rows kept; while a superbatch is sampled, neighbor lists instead.
  uint64_t cpu_cache_bytes = 0;
  /// Neighbor lists kept; 0 = cpu_cache_bytes.
  uint64_t neighbor_cache_bytes = 0;
  /// Which lists.
  NeighborRank neighbor_rank = NeighborRank::kRatio;
  /// Batches in a superbatch; 0 = by profile (Ginex, section 3.5).
  int64_t superbatch = 0;
  /// Reads that each reading thread keeps in flight.
  int io_depth = 64;

  /// INVALID_ARGUMENT, naming the option, for a negative superbatch or a bad
  /// depth.
  absl::Status Validate() const;

  /// Bytes for neighbor lists.
  uint64_t NeighborBytes() const {
    return neighbor_cache_bytes == 0 ? cpu_cache_bytes : neighbor_cache_bytes;
  }
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_OPTIONS_H_
