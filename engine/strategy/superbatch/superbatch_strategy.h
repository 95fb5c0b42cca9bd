#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/dataset.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/options.h"

namespace hearth::strategy {

/// A strategy, of this name, that samples a superbatch ahead of its execution,
/// so that the feature cache can be the optimal one (Ginex, section 3). See
/// README.md.
///
/// Errors as SuperbatchOptions::Validate; INVALID_ARGUMENT for a neighbor rank
/// that needs a partition where `resources` has none; otherwise see NewStrategy
/// for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewSuperbatchStrategy(
    absl::string_view name, const SuperbatchOptions& options,
    const PipelineOptions& pipeline, const store::Dataset& dataset,
    const StrategyResources& resources);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_
