#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_H_

#include "absl/status/statusor.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/forecast.h"

namespace hearth::strategy {

/// Forecasts DiskGNN's work for some passes.
///
/// If the plan is there and whole, its own figures: rows, bytes and disk are
/// exact, pages of the disk cache are counted in some batches. Otherwise
/// batches are sampled, all of them or, of more than
/// ForecastRequest::most_batches, so many that are spread evenly, and the
/// layout is forecast from these (layout_forecast.h). Time follows from what is
/// measured meanwhile (machine_probe.h, time_forecast.h): it is that of a
/// machine as busy as now.
///
/// Takes no plan, makes no plan's folder, and leaves no file, whatever happens.
/// Errors are those that Strategy::Prepare would have, as far as they can be
/// foreseen: RESOURCE_EXHAUSTED for too little disk, with the numbers;
/// CANCELLED when `stop` is requested.
absl::StatusOr<Forecast> ForecastDiskgnn(const DiskgnnOptions& options,
                                         const ForecastContext& context,
                                         const ForecastRequest& request);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_FORECAST_H_
