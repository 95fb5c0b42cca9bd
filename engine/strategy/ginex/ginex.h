#ifndef HEARTH_ENGINE_STRATEGY_GINEX_GINEX_H_
#define HEARTH_ENGINE_STRATEGY_GINEX_GINEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/superbatch_options.h"

namespace hearth::strategy {

/// Options of strategy `ginex`.
struct GinexOptions {
  /// Bytes of the feature cache; while a superbatch is sampled, of the neighbor
  /// cache.
  uint64_t cpu_cache_bytes = 0;
  /// Bytes of the neighbor cache; 0 = cpu_cache_bytes.
  uint64_t neighbor_cache_bytes = 0;
  /// How the neighbor cache ranks lists; kCross only with a partition.
  NeighborRank neighbor_rank = NeighborRank::kRatio;
  /// Batches in a superbatch; 0 = as many as disk and memory hold, by a profile
  /// of the first batches (section 3.5).
  int64_t superbatch = 0;
  /// Reads that each reading thread keeps in flight.
  int io_depth = 64;

  bool operator==(const GinexOptions&) const = default;
};

/// Ginex (Park et al., VLDB 2022): samples a superbatch ahead of its execution,
/// so that the feature cache can be the optimal one. See README.md.
///
/// INVALID_ARGUMENT for a negative superbatch or a bad depth; otherwise see
/// NewStrategy for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewGinexStrategy(
    const GinexOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// The memory that it holds at most; never an error.
absl::StatusOr<MemoryEstimate> EstimateGinexMemory(const GinexOptions& options,
                                                   const MemoryBasis& basis);

/// See ForecastSuperbatch and its memory (superbatch/superbatch_strategy.h).
absl::StatusOr<Forecast> ForecastGinex(const GinexOptions& options,
                                       const ForecastContext& context,
                                       const ForecastRequest& request);
MemoryEstimate EstimateGinexForecastMemory(const GinexOptions& options,
                                           const MemoryBasis& basis);

/// See SuperbatchBudgets (superbatch/superbatch_options.h).
std::vector<BudgetOf<GinexOptions>> GinexBudgets(const GinexOptions& options,
                                                 const MemoryBasis& basis);

/// See DescribeResidentLists and FindResidentLists (kinds.h).
std::string DescribeGinexLists(const GinexOptions& options);
absl::StatusOr<std::unique_ptr<ResidentLists>> FindGinexLists(
    const GinexOptions& options, const ResidentListsRequest& request);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GINEX_GINEX_H_
