#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/dataset.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/neighbor_lists.h"
#include "engine/strategy/superbatch/superbatch_options.h"

namespace hearth::strategy {

/// What distinguishes one strategy with superbatches from another.
struct SuperbatchRecipe {
  /// The strategy's name.
  absl::string_view name;
  SuperbatchOptions options;
  /// Neighbor lists in addition to the neighbor cache; null: none.
  std::unique_ptr<ListSource> lists = nullptr;
};

/// Makes a strategy that samples a superbatch ahead of its execution, so that
/// the feature cache can be the optimal one (Ginex, section 3). See README.md.
///
/// Errors as SuperbatchOptions::Validate; INVALID_ARGUMENT for a neighbor rank
/// that needs a partition where `resources` has none; otherwise see NewStrategy
/// for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewSuperbatchStrategy(
    SuperbatchRecipe recipe, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// The memory that a strategy with superbatches holds at most.
MemoryEstimate EstimateSuperbatchMemory(const SuperbatchOptions& options,
                                        const MemoryBasis& basis);

/// The forecast of a strategy with superbatches: samples and plans the whole
/// first training pass as the strategy would, whatever
/// ForecastRequest::most_batches, since the reads of an optimal cache cannot be
/// extrapolated from a part of the batches. Rows, bytes and reads are exactly
/// those of that pass; its time follows from how long sampling takes now and
/// from measurements of disk and trainer (engine/machine). Errors as
/// Strategy::Run; leaves no file.
absl::StatusOr<Forecast> ForecastSuperbatch(SuperbatchRecipe recipe,
                                            const ForecastContext& context,
                                            const ForecastRequest& request);

/// The memory that ForecastSuperbatch holds at most.
MemoryEstimate EstimateSuperbatchForecastMemory(
    const SuperbatchOptions& options, const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_
