#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_MEMORY_BOUND_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_MEMORY_BOUND_H_

#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/superbatch/options.h"

namespace hearth::strategy {

/// Memory that a strategy with superbatches holds at most.
MemoryEstimate EstimateSuperbatchMemory(const SuperbatchOptions& options,
                                        const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_MEMORY_BOUND_H_
