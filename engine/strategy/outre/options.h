#ifndef HEARTH_ENGINE_STRATEGY_OUTRE_OPTIONS_H_
#define HEARTH_ENGINE_STRATEGY_OUTRE_OPTIONS_H_

#include <cstdint>

namespace hearth::strategy {

/// OUTRE (Sheng et al., 2024): batches of a partition's parts, whose neighbor
/// lists are read together, and an optimal cache for each superbatch.
struct OutreOptions {
  /// Rows kept; while a superbatch is sampled, neighbor lists instead.
  uint64_t cpu_cache_bytes = 0;
  /// Neighbor lists kept, those of macro batches included; 0 =
  /// cpu_cache_bytes.
  uint64_t neighbor_cache_bytes = 0;
  /// Batches in a superbatch; 0 = an epoch, or what disk and memory let.
  int64_t superbatch = 0;
  /// Reads that each reading thread keeps in flight.
  int io_depth = 64;

  bool operator==(const OutreOptions&) const = default;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_OUTRE_OPTIONS_H_
