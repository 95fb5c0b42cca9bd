#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_OPTIONS_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/strategy/memory_budget.h"

/// The options of strategies with superbatches, how they may be cut
/// (SuperbatchBudgets), and how large a superbatch is (SuperbatchSize). Pure.

namespace hearth::strategy {

/// How the neighbor cache ranks nodes: it holds the lists of the first ones
/// that fit.
enum class NeighborRank {
  /// Out-degree over in-degree (Ginex, section 3.2).
  kRatio,
  /// Number of neighbors in other parts of the partition (OUTRE, section 4.2).
  kCross,
};

/// The options that all strategies with superbatches share.
struct SuperbatchOptions {
  /// Bytes of the feature cache; while a superbatch is sampled, of the neighbor
  /// cache.
  uint64_t cpu_cache_bytes = 0;
  /// Bytes of the neighbor cache; 0 = cpu_cache_bytes.
  uint64_t neighbor_cache_bytes = 0;
  /// How the neighbor cache ranks nodes.
  NeighborRank neighbor_rank = NeighborRank::kRatio;
  /// Batches in a superbatch; 0 = SuperbatchSize of the profile of its first
  /// batches (Ginex, section 3.5).
  int64_t superbatch = 0;
  /// Reads that each reading thread keeps in flight.
  int io_depth = 64;

  /// INVALID_ARGUMENT, naming the option, for a negative superbatch or a bad
  /// depth.
  absl::Status Validate() const;

  /// Bytes of the neighbor cache.
  uint64_t NeighborBytes() const {
    return neighbor_cache_bytes == 0 ? cpu_cache_bytes : neighbor_cache_bytes;
  }
};

/// Budgets of a strategy with superbatches, in the order in which they are cut
/// so that a job fits into memory: threads, a superbatch that was given,
/// neighbor lists, rows. The neighbor cache is first cut to the size of the
/// feature cache, since both are never in memory at once, and then together
/// with it.
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

/// Sizes of the first shards of a pass, for SuperbatchSize.
struct SuperbatchProfile {
  int64_t batches = 0;
  /// Bytes of the sample files of these shards.
  uint64_t file_bytes = 0;
  /// Input nodes of these shards.
  int64_t rows = 0;
};

/// The limits of a superbatch.
struct SuperbatchLimits {
  /// Disk for the files of two superbatches: while one is planned and executed,
  /// the files of the next are already on disk.
  uint64_t file_bytes = 0;
  /// Memory for the part of planning that grows with the number of batches.
  uint64_t plan_bytes = 0;
};

/// Memory of planning for each row of each batch; batches that are profiled.
inline constexpr uint64_t kPlanBytesPerRow = 4;
inline constexpr int64_t kProfiledBatches = 8;

/// The largest superbatch within the limits, in units of the profile, at least
/// 1 (Ginex, section 3.5: "one can increase the superbatch size as much as the
/// storage constraint permits"). REQUIRES: the profile has at least one batch.
int64_t SuperbatchSize(const SuperbatchProfile& profile,
                       const SuperbatchLimits& limits);

/// Memory for the part of planning that grows with the number of batches: a
/// quarter of the cache, but at least 64 MiB.
uint64_t PlanBytesFor(uint64_t cache_bytes);

/// Limits on a disk with `free_bytes` left and with a cache of `cache_bytes`:
/// the paper's 100 GB of runtime files, but no more than a quarter of the disk;
/// and PlanBytesFor(cache_bytes).
SuperbatchLimits LimitsFor(uint64_t free_bytes, uint64_t cache_bytes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_OPTIONS_H_
