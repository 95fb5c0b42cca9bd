#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/budget.h"
#include "engine/strategy/diskgnn/options.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// DiskGNN (Liu et al., 2024): samples all batches before training, and packs
/// the rows of each so that it finds them by few large reads. See README.md.
///
/// INVALID_ARGUMENT for a bad depth or no memory to prepare in;
/// FAILED_PRECONDITION for a GPU cache without a GPU; otherwise see NewStrategy
/// for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewDiskgnnStrategy(
    const DiskgnnOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// Memory of the host that the strategy holds at most, preparing included;
/// never an error.
absl::StatusOr<MemoryEstimate> EstimateDiskgnnMemory(
    const DiskgnnOptions& options, const MemoryBasis& basis);

/// Budgets that may be cut so that a job fits into memory, in this order.
std::vector<BudgetOf<DiskgnnOptions>> DiskgnnBudgets(
    const DiskgnnOptions& options, const MemoryBasis& basis);

/// The options with `prepare_memory_bytes` sized, if it is kAutoBytes.
DiskgnnOptions WithMeasuredDiskgnnBudgets(DiskgnnOptions options,
                                          const MemoryBasis& basis);

/// Memory that ForecastDiskgnn (forecast/forecast.h) holds at most.
MemoryEstimate EstimateDiskgnnForecastMemory(const DiskgnnOptions& options,
                                             const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_H_
