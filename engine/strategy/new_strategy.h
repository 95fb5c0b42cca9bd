#ifndef HEARTH_ENGINE_STRATEGY_NEW_STRATEGY_H_
#define HEARTH_ENGINE_STRATEGY_NEW_STRATEGY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/store/dataset.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Loads or maps what the strategy needs of `dataset`, which must outlive it,
/// as must `clock`. RESOURCE_EXHAUSTED, with the numbers, if `memory` would
/// need more than this machine has available.
absl::StatusOr<std::unique_ptr<Strategy>> NewStrategy(
    const StrategyOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const Clock& clock);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_NEW_STRATEGY_H_
