#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_OPTIONS_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/strategy/memory_budget.h"

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

/// Budgets of a strategy that samples superbatches ahead, in the order in which
/// they are cut so that a job fits into memory: threads, a superbatch that was
/// given, neighbor lists, rows. Neighbor lists are cut to the memory for rows
/// first, since both are never there at once, and then with it.
template <typename Options>
std::vector<BudgetOf<Options>> SuperbatchBudgets(const Options& options,
                                                 const MemoryBasis& basis) {
  using Chosen = Configuration<Options>;
  std::vector<BudgetOf<Options>> budgets =
      ThreadBudgets<Options>(basis.pipeline);
  if (options.superbatch > 0) {
    budgets.push_back(
        {.budget = {.option = "superbatch",
                    .unit = BudgetUnit::kBatches,
                    .asked = static_cast<uint64_t>(options.superbatch),
                    .least = 1},
         .set = [](uint64_t batches, Chosen& chosen) {
           chosen.strategy.superbatch = static_cast<int64_t>(batches);
         }});
  }
  if (options.neighbor_cache_bytes > options.cpu_cache_bytes) {
    Budget lists = CacheBudget("neighbor-cache", options.neighbor_cache_bytes,
                               basis.all_lists_bytes());
    lists.least = options.cpu_cache_bytes;
    budgets.push_back(
        {.budget = lists, .set = [](uint64_t bytes, Chosen& chosen) {
           chosen.strategy.neighbor_cache_bytes = bytes;
         }});
  }
  budgets.push_back({.budget = CacheBudget("cpu-cache", options.cpu_cache_bytes,
                                           std::max(basis.all_rows_bytes(),
                                                    basis.all_lists_bytes())),
                     .set = [](uint64_t bytes, Chosen& chosen) {
                       chosen.strategy.cpu_cache_bytes = bytes;
                       chosen.strategy.neighbor_cache_bytes = std::min(
                           chosen.strategy.neighbor_cache_bytes, bytes);
                     }});
  return budgets;
}

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

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_OPTIONS_H_
