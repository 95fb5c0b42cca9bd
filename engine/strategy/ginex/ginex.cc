#include "engine/strategy/ginex/ginex.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/strategy/superbatch/neighbor_lists.h"
#include "engine/strategy/superbatch/superbatch_options.h"
#include "engine/strategy/superbatch/superbatch_strategy.h"

namespace hearth::strategy {

namespace {

SuperbatchOptions ToSuperbatchOptions(const GinexOptions& options) {
  return {.cpu_cache_bytes = options.cpu_cache_bytes,
          .neighbor_cache_bytes = options.neighbor_cache_bytes,
          .neighbor_rank = options.neighbor_rank,
          .superbatch = options.superbatch,
          .io_depth = options.io_depth};
}

SuperbatchRecipe RecipeOf(const GinexOptions& options) {
  return {.name = "ginex", .options = ToSuperbatchOptions(options)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewGinexStrategy(
    const GinexOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  return NewSuperbatchStrategy(RecipeOf(options), pipeline, dataset, resources);
}

absl::StatusOr<MemoryEstimate> EstimateGinexMemory(const GinexOptions& options,
                                                   const MemoryBasis& basis) {
  return EstimateSuperbatchMemory(ToSuperbatchOptions(options), basis);
}

absl::StatusOr<Forecast> ForecastGinex(const GinexOptions& options,
                                       const ForecastContext& context,
                                       const ForecastRequest& request) {
  return ForecastSuperbatch(RecipeOf(options), context, request);
}

MemoryEstimate EstimateGinexForecastMemory(const GinexOptions& options,
                                           const MemoryBasis& basis) {
  return EstimateSuperbatchForecastMemory(ToSuperbatchOptions(options), basis);
}

std::vector<BudgetOf<GinexOptions>> GinexBudgets(const GinexOptions& options,
                                                 const MemoryBasis& basis) {
  return SuperbatchBudgets(options, basis);
}

std::string DescribeGinexLists(const GinexOptions& options) {
  return DescribeNeighborCache(ToSuperbatchOptions(options));
}

absl::StatusOr<std::unique_ptr<ResidentLists>> FindGinexLists(
    const GinexOptions& options, const ResidentListsRequest& request) {
  const SuperbatchOptions superbatch = ToSuperbatchOptions(options);
  HEARTH_ASSIGN_OR_RETURN(
      NeighborCacheLists lists,
      NeighborCacheLists::Find(superbatch.neighbor_rank,
                               superbatch.NeighborBytes(), request));
  return std::make_unique<NeighborCacheLists>(std::move(lists));
}

}  // namespace hearth::strategy
