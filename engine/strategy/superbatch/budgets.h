#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_BUDGETS_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_BUDGETS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/strategy/budget.h"
#include "engine/strategy/memory_estimate.h"

namespace hearth::strategy {

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

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_BUDGETS_H_
