#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// DiskGNN (Liu et al., 2024): offline sampling, four levels of rows, packed
/// batches.
struct DiskgnnOptions {
  /// Rows kept in memory.
  uint64_t cpu_cache_bytes = 0;
  /// Rows kept on the GPU, more popular ones (section 4). Batches are then
  /// brought together there, too.
  uint64_t gpu_cache_bytes = 0;
  /// Rows of the segmented disk cache; absent = as many as the search finds;
  /// 0 = none, so that all are packed.
  std::optional<uint64_t> disk_cache_bytes = std::nullopt;
  /// All that the plan adds to the disk; 0 = no limit but the disk's.
  uint64_t disk_limit_bytes = 0;
  /// The same as a multiple of the features; 0 = none.
  double disk_limit_ratio = 0;
  /// Memory while preparing; kAutoBytes: as much as makes it fast.
  uint64_t prepare_memory_bytes = uint64_t{1} << 30;
  /// Reads of the disk cache that each reading thread keeps in flight.
  int io_depth = 64;

  bool operator==(const DiskgnnOptions&) const = default;
};

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
