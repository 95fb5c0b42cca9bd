#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_H_

#include "absl/status/statusor.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/forecast.h"

namespace hearth::strategy {

/// Forecasts DiskGNN's work for some passes.
///
/// If the plan exists and is whole, the forecast has its figures: rows, bytes
/// and disk are exact, pages of the disk cache are counted in some batches.
/// Otherwise it samples up to ForecastRequest::most_batches batches, spread
/// evenly, and forecasts the layout from them (layout_forecast.h). Times follow
/// from measurements (engine/machine, time_forecast.h), on a machine as busy
/// as now.
///
/// Leases no plan, creates no plan's folder, and never leaves a file. Errors
/// are those that Strategy::Prepare would have, as far as they can be foreseen:
/// RESOURCE_EXHAUSTED for too little disk, with the numbers; CANCELLED when the
/// context's stop is requested.
absl::StatusOr<Forecast> ForecastDiskgnn(const DiskgnnOptions& options,
                                         const ForecastContext& context,
                                         const ForecastRequest& request);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_H_
