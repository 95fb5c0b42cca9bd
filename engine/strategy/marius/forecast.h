#ifndef HEARTH_ENGINE_STRATEGY_MARIUS_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_MARIUS_FORECAST_H_

#include "absl/status/statusor.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/marius/marius.h"
#include "engine/strategy/memory_budget.h"

namespace hearth::strategy {

/// Tells what epochs read: the mean over the training passes, or over the first
/// 64, in their order; exact, but for blocks of checksums that a partition
/// shares with the next. Counts rows as CountRows does, on the whole graph.
/// Errors of NewMariusStrategy and its Run; otherwise see MakeForecast.
absl::StatusOr<Forecast> ForecastMarius(const MariusOptions& options,
                                        const ForecastContext& context,
                                        const ForecastRequest& request);

MemoryEstimate EstimateMariusForecastMemory(const MariusOptions& options,
                                            const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_MARIUS_FORECAST_H_
