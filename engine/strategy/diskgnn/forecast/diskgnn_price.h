#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_DISKGNN_PRICE_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_DISKGNN_PRICE_H_

#include "absl/status/statusor.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/pricing/price.h"

namespace hearth::strategy {

/// The price of `diskgnn`: the plan of the first period, unless it exists, with
/// all rows outside of memory in packs, and passes that read them
/// (time_forecast.h). Later periods are prepared while others train.
/// RESOURCE_EXHAUSTED, with the numbers, if the plan finds no room on the disk.
absl::StatusOr<Price> PriceDiskgnn(const DiskgnnOptions& options,
                                   const PricedJob& job);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_DISKGNN_PRICE_H_
