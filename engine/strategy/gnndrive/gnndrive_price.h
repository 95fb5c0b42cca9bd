#ifndef HEARTH_ENGINE_STRATEGY_GNNDRIVE_GNNDRIVE_PRICE_H_
#define HEARTH_ENGINE_STRATEGY_GNNDRIVE_GNNDRIVE_PRICE_H_

#include "absl/status/statusor.h"
#include "engine/strategy/gnndrive/gnndrive.h"
#include "engine/strategy/pricing/price.h"

namespace hearth::strategy {

/// The price of `gnndrive`: rows that its least recently used ones do not hold
/// are read one by one. Never an error.
absl::StatusOr<Price> PriceGnndrive(const GnndriveOptions& options,
                                    const PricedJob& job);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GNNDRIVE_GNNDRIVE_PRICE_H_
