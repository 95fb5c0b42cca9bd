#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/dataset.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/list_feed.h"
#include "engine/strategy/superbatch/options.h"

namespace hearth::strategy {

/// The parts that make a strategy of its own of one with superbatches.
struct SuperbatchRecipe {
  /// The strategy's.
  absl::string_view name;
  SuperbatchOptions options;
  /// Gives batches lists beside the neighbor cache; null: nothing does.
  std::unique_ptr<ListSource> lists = nullptr;
};

/// A strategy that samples a superbatch ahead of its execution, so that the
/// feature cache can be the optimal one (Ginex, section 3). See README.md.
///
/// Errors as SuperbatchOptions::Validate; INVALID_ARGUMENT for a neighbor rank
/// that needs a partition where `resources` has none; otherwise see NewStrategy
/// for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewSuperbatchStrategy(
    SuperbatchRecipe recipe, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_
