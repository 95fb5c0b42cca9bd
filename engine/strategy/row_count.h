#ifndef HEARTH_ENGINE_STRATEGY_ROW_COUNT_H_
#define HEARTH_ENGINE_STRATEGY_ROW_COUNT_H_

#include "absl/status/statusor.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/memory_estimate.h"

namespace hearth::strategy {

/// The forecast of strategies that cannot tell their reads: samples batches of
/// the training passes and counts their rows, in proportion to seeds, which is
/// exact if all batches are sampled. CANCELLED on a stop; errors of reading the
/// topology.
absl::StatusOr<Forecast> CountRows(const ForecastContext& context,
                                   const ForecastRequest& request);

/// Memory that CountRows holds at most.
MemoryEstimate EstimateCountingMemory(const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_ROW_COUNT_H_
