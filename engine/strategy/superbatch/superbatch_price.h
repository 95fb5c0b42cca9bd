#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_PRICE_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_PRICE_H_

#include "engine/strategy/pricing/price.h"
#include "engine/strategy/superbatch/superbatch_options.h"

namespace hearth::strategy {

/// The price of strategies with superbatches: sampling and planning, with
/// neighbor lists read from disk that their cache does not hold, then the
/// execution with an optimal cache; one after the other. `by_parts`: lists are
/// read part by part of a partition, in order, as OUTRE does.
Price PriceSuperbatch(const SuperbatchOptions& options, bool by_parts,
                      const PricedJob& job);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_PRICE_H_
