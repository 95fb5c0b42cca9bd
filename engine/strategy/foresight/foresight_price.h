#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_PRICE_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_PRICE_H_

#include "absl/status/statusor.h"
#include "engine/strategy/foresight/foresight.h"
#include "engine/strategy/pricing/price.h"

namespace hearth::strategy {

/// The price of a job with strategy `foresight`. Plans that exist are not
/// looked for: the price is that of making them.
absl::StatusOr<Price> PriceForesight(const ForesightOptions& options,
                                     const PricedJob& job);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_PRICE_H_
