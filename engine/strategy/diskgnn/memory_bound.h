#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_MEMORY_BOUND_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_MEMORY_BOUND_H_

#include "absl/status/statusor.h"
#include "engine/strategy/diskgnn/options.h"
#include "engine/strategy/memory_estimate.h"

namespace hearth::strategy {

/// Memory of the host that the strategy holds at most, preparing included;
/// never an error.
absl::StatusOr<MemoryEstimate> EstimateDiskgnnMemory(
    const DiskgnnOptions& options, const MemoryBasis& basis);

/// Memory that ForecastDiskgnn (forecast/forecast.h) holds at most.
MemoryEstimate EstimateDiskgnnForecastMemory(const DiskgnnOptions& options,
                                             const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_MEMORY_BOUND_H_
