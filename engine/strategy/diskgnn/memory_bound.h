#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_MEMORY_BOUND_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_MEMORY_BOUND_H_

#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// What the strategy holds at most of the host's memory, preparing included.
MemoryEstimate EstimateDiskgnnMemory(const DiskgnnOptions& options,
                                     const MemoryBasis& basis);

/// What ForecastDiskgnn (forecast.h) holds at most.
MemoryEstimate EstimateForecastMemory(const DiskgnnOptions& options,
                                      const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_MEMORY_BOUND_H_
