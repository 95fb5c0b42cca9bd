#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_FORECAST_H_

#include "absl/status/statusor.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/superbatch/options.h"
#include "engine/strategy/superbatch/superbatch_strategy.h"

namespace hearth::strategy {

/// The forecast of a strategy with superbatches: samples and plans its first
/// training pass as the strategy would, whatever ForecastRequest::most_batches,
/// since what an optimal cache reads does not follow from a part of the
/// batches. Rows, bytes and reads are those of that pass, exactly; its time
/// follows from how long sampling takes now and from what is measured of disk
/// and trainer (machine_probe.h). Errors as Strategy::Run; leaves no file.
absl::StatusOr<Forecast> ForecastSuperbatch(SuperbatchRecipe recipe,
                                            const ForecastContext& context,
                                            const ForecastRequest& request);

/// Memory that it holds at most.
MemoryEstimate EstimateSuperbatchForecastMemory(
    const SuperbatchOptions& options, const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_FORECAST_H_
