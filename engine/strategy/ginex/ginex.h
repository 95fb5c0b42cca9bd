#ifndef HEARTH_ENGINE_STRATEGY_GINEX_GINEX_H_
#define HEARTH_ENGINE_STRATEGY_GINEX_GINEX_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/budget.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/ginex/options.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/resident_lists.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Ginex (Park et al., VLDB 2022): samples a superbatch ahead of its execution,
/// so that the feature cache can be the optimal one. See README.md.
///
/// INVALID_ARGUMENT for a negative superbatch or a bad depth; otherwise see
/// NewStrategy for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewGinexStrategy(
    const GinexOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// Memory that it holds at most; never an error.
absl::StatusOr<MemoryEstimate> EstimateGinexMemory(const GinexOptions& options,
                                                   const MemoryBasis& basis);

/// See superbatch/forecast.h.
absl::StatusOr<Forecast> ForecastGinex(const GinexOptions& options,
                                       const ForecastContext& context,
                                       const ForecastRequest& request);
MemoryEstimate EstimateGinexForecastMemory(const GinexOptions& options,
                                           const MemoryBasis& basis);

/// See superbatch/budgets.h.
std::vector<BudgetOf<GinexOptions>> GinexBudgets(const GinexOptions& options,
                                                 const MemoryBasis& basis);

/// See kinds.h.
std::string DescribeGinexLists(const GinexOptions& options);
absl::StatusOr<std::unique_ptr<ResidentLists>> FindGinexLists(
    const GinexOptions& options, const ResidentListsRequest& request);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GINEX_GINEX_H_
