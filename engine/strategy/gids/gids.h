#ifndef HEARTH_ENGINE_STRATEGY_GIDS_GIDS_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_GIDS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/budget.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/gids/options.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// GIDS: Park, Mailthody, Qureshi and Hwu, "Accelerating Sampling and
/// Aggregation Operations in GNN Frameworks with GPU Initiated Direct Storage
/// Accesses", PVLDB 17(6), 2024, with the CPU issuing the reads; see README.md.
/// See NewStrategy for lifetimes and errors. Prepare stripes the features where
/// that is asked for, chooses the rows of the constant buffer, reads them, and
/// measures the disks. A pass is
/// FAILED_PRECONDITION without it, and ends with the reads' error where rows
/// cannot be read.
absl::StatusOr<std::unique_ptr<Strategy>> NewGidsStrategy(
    const GidsOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// Memory that it holds at most.
absl::StatusOr<MemoryEstimate> EstimateGidsMemory(const GidsOptions& options,
                                                  const MemoryBasis& basis);

/// Samples the first training pass and locates its rows, so that rows and reads
/// are those of the first epoch.
absl::StatusOr<Forecast> ForecastGids(const GidsOptions& options,
                                      const ForecastContext& context,
                                      const ForecastRequest& request);

MemoryEstimate EstimateGidsForecastMemory(const GidsOptions& options,
                                          const MemoryBasis& basis);

/// Budgets that may be cut so that a job fits into memory, in this order.
std::vector<BudgetOf<GidsOptions>> GidsBudgets(const GidsOptions& options,
                                               const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_GIDS_H_
