#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_FORECAST_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_FORECAST_H_

#include <optional>

#include "absl/status/statusor.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/foresight/foresight.h"
#include "engine/strategy/memory_budget.h"

namespace hearth::strategy {

/// The rows, and where they are packed the bytes and reads, of a training epoch
/// with the strategy: samples and plans the first generations as the job would,
/// as many as ForecastRequest::most_batches allows, without packs. Exact: the
/// mean over the training passes that these generations cover. Absent if they
/// do not cover one. Errors as Strategy::Prepare; leaves no file.
absl::StatusOr<std::optional<Forecast>> CountForesightReads(
    const ForesightOptions& options, const ForecastContext& context,
    const ForecastRequest& request);

/// The memory that CountForesightReads holds at most.
MemoryEstimate EstimateForesightCountingMemory(const ForesightOptions& options,
                                               const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_FORECAST_H_
