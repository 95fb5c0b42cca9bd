#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_SIZE_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_SIZE_H_

#include <cstdint>

namespace hearth::strategy {

/// The first batches of a pass (or their shards), sampled to learn how large
/// they are.
struct SuperbatchProfile {
  int64_t batches = 0;
  /// Their sample files.
  uint64_t file_bytes = 0;
  /// Their input nodes.
  int64_t rows = 0;
};

/// The limits of a superbatch.
struct SuperbatchLimits {
  /// Disk, for the files of two superbatches: while one is planned and
  /// executed, those of the next lie there already.
  uint64_t file_bytes = 0;
  /// Memory, for the part of planning that grows with the batches.
  uint64_t plan_bytes = 0;
};

/// Planning takes so much memory for each row of each batch, and the profile so
/// many batches.
inline constexpr uint64_t kPlanBytesPerRow = 4;
inline constexpr int64_t kProfiledBatches = 8;

/// The largest superbatch within the limits (Ginex, section 3.5: "one can
/// increase the superbatch size as much as the storage constraint permits"),
/// at least 1. REQUIRES: a profile of at least one batch.
int64_t SuperbatchSize(const SuperbatchProfile& profile,
                       const SuperbatchLimits& limits);

/// Memory for the part of planning that grows with the batches: a quarter of
/// the cache, but at least 64 MiB.
uint64_t PlanBytesFor(uint64_t cache_bytes);

/// Limits on a disk with `free_bytes` left and with a cache of `cache_bytes`:
/// the paper's 100 GB of runtime files, but no more than a quarter of the disk;
/// and PlanBytesFor(cache_bytes).
SuperbatchLimits LimitsFor(uint64_t free_bytes, uint64_t cache_bytes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_SIZE_H_
