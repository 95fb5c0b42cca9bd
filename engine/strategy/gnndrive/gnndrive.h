#ifndef HEARTH_ENGINE_STRATEGY_GNNDRIVE_GNNDRIVE_H_
#define HEARTH_ENGINE_STRATEGY_GNNDRIVE_GNNDRIVE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/budget.h"
#include "engine/strategy/gnndrive/options.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// GNNDrive: Jiang, Jia and Wang, "Reducing Memory Contention and I/O
/// Congestion for Disk-based GNN Training", ICPP 2024. Stages: sample, extract,
/// assemble, train; see README.md. See NewStrategy for lifetimes and errors. A
/// pass is RESOURCE_EXHAUSTED, with the numbers, if the budgets do not hold a
/// batch, and ends with the reads' error where rows cannot be read.
absl::StatusOr<std::unique_ptr<Strategy>> NewGnndriveStrategy(
    const GnndriveOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// Memory that it holds at most. RESOURCE_EXHAUSTED if the options leave no
/// room for a batch (see PlanSlots).
absl::StatusOr<MemoryEstimate> EstimateGnndriveMemory(
    const GnndriveOptions& options, const MemoryBasis& basis);

/// Budgets that may be cut so that a job fits into memory, in this order.
std::vector<BudgetOf<GnndriveOptions>> GnndriveBudgets(
    const GnndriveOptions& options, const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GNNDRIVE_GNNDRIVE_H_
