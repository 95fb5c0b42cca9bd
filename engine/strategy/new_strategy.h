#ifndef HEARTH_ENGINE_STRATEGY_NEW_STRATEGY_H_
#define HEARTH_ENGINE_STRATEGY_NEW_STRATEGY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Loads, maps or opens what the strategy needs of `dataset`, which must
/// outlive it, as must what `resources` refers to.
/// INVALID_ARGUMENT for options out of range; FAILED_PRECONDITION, naming the
/// option, for rows on a GPU where `resources` has none.
absl::StatusOr<std::unique_ptr<Strategy>> NewStrategy(
    const StrategyOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// What the passes of a strategy hold in memory at most. RESOURCE_EXHAUSTED,
/// with the numbers, if the options' own budgets leave no room for a batch.
absl::StatusOr<MemoryEstimate> EstimateMemory(const StrategyOptions& options,
                                              const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_NEW_STRATEGY_H_
