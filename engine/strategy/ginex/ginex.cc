#include "engine/strategy/ginex/ginex.h"

#include "engine/strategy/superbatch/memory_bound.h"
#include "engine/strategy/superbatch/options.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewGinexStrategy(
    const GinexOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  return NewSuperbatchStrategy(
      {.name = "ginex", .options = ToSuperbatchOptions(options)}, pipeline,
      dataset, resources);
}

absl::StatusOr<MemoryEstimate> EstimateGinexMemory(const GinexOptions& options,
                                                   const MemoryBasis& basis) {
  return EstimateSuperbatchMemory(ToSuperbatchOptions(options), basis);
}

}  // namespace hearth::strategy
