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

/// Memory that a strategy with superbatches holds at most.
MemoryEstimate EstimateSuperbatchMemory(const SuperbatchOptions& options,
                                        const MemoryBasis& basis);

/// The forecast of a strategy with superbatches: samples and plans its first
/// training pass as the strategy would, whatever ForecastRequest::most_batches,
/// since what an optimal cache reads does not follow from a part of the
/// batches. Rows, bytes and reads are those of that pass, exactly; its time
/// follows from how long sampling takes now and from what is measured of disk
/// and trainer (machine_probe.h). Errors as Strategy::Run; leaves no file.
absl::StatusOr<Forecast> ForecastSuperbatch(SuperbatchRecipe recipe,
                                            const ForecastContext& context,
                                            const ForecastRequest& request);

/// Memory that it holds at most.
MemoryEstimate EstimateSuperbatchForecastMemory(
    const SuperbatchOptions& options, const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_STRATEGY_H_
