#ifndef HEARTH_ENGINE_STRATEGY_GIDS_GIDS_PRICE_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_GIDS_PRICE_H_

#include "absl/status/statusor.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/pricing/price.h"

namespace hearth::strategy {

/// The price of `gids`: hot rows stay in memory, the others are read one by one
/// by one thread that keeps the disk at its best depth. Never an error.
absl::StatusOr<Price> PriceGids(const GidsOptions& options,
                                const PricedJob& job);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_GIDS_PRICE_H_
