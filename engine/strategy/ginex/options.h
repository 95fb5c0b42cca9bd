#ifndef HEARTH_ENGINE_STRATEGY_GINEX_OPTIONS_H_
#define HEARTH_ENGINE_STRATEGY_GINEX_OPTIONS_H_

#include <cstdint>

#include "engine/strategy/superbatch/options.h"

namespace hearth::strategy {

/// Ginex (Park et al., 2022): an optimal cache for each superbatch.
struct GinexOptions {
  /// Rows kept; while a superbatch is sampled, neighbor lists instead.
  uint64_t cpu_cache_bytes = 0;
  /// Neighbor lists kept; 0 = cpu_cache_bytes.
  uint64_t neighbor_cache_bytes = 0;
  /// Which lists: by cross counts where there is a partition alone.
  NeighborRank neighbor_rank = NeighborRank::kRatio;
  /// Batches in a superbatch; 0 = by profile (section 3.5).
  int64_t superbatch = 0;
  /// Reads that each reading thread keeps in flight.
  int io_depth = 64;

  bool operator==(const GinexOptions&) const = default;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GINEX_OPTIONS_H_
