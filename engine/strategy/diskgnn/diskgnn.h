#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Options of strategy `diskgnn`.
struct DiskgnnOptions {
  /// Bytes of the CPU cache: rows in memory.
  uint64_t cpu_cache_bytes = 0;
  /// Bytes of the GPU cache: more popular rows in GPU memory (section 4).
  /// Batches are then assembled on the GPU.
  uint64_t gpu_cache_bytes = 0;
  /// Bytes of the segmented disk cache; absent = as the layout search chooses;
  /// 0 = none, so that all rows are packed.
  std::optional<uint64_t> disk_cache_bytes = std::nullopt;
  /// Bytes of the whole plan on disk; 0 = no limit but the disk's.
  uint64_t disk_limit_bytes = 0;
  /// disk_limit_bytes as a multiple of the features' bytes; 0 = unset.
  double disk_limit_ratio = 0;
  /// Bytes of memory for packing; kAutoBytes: as many as make packing fast.
  uint64_t prepare_memory_bytes = uint64_t{1} << 30;
  /// Reads of the disk cache that each reading thread keeps in flight.
  int io_depth = 64;
  /// Folder of pieces that a plan is joined from (pieces/plan_pieces.h); empty:
  /// it is made here.
  std::string pieces_folder = {};
  /// Pieces into which the work is cut, where the folder has none yet.
  int64_t num_pieces = 16;

  bool operator==(const DiskgnnOptions&) const = default;
};

/// DiskGNN (Liu et al., 2024): samples all batches before training, keeps
/// popular rows in four levels, and packs the other rows of each batch so that
/// few large reads find them. See README.md.
///
/// INVALID_ARGUMENT for a bad depth or no memory to prepare in;
/// FAILED_PRECONDITION for a GPU cache without a GPU; otherwise see NewStrategy
/// for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewDiskgnnStrategy(
    const DiskgnnOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// The memory that the strategy holds at most, preparing included; never an
/// error.
absl::StatusOr<MemoryEstimate> EstimateDiskgnnMemory(
    const DiskgnnOptions& options, const MemoryBasis& basis);

/// Budgets that may be cut so that a job fits into memory, in the order of
/// cutting.
std::vector<BudgetOf<DiskgnnOptions>> DiskgnnBudgets(
    const DiskgnnOptions& options, const MemoryBasis& basis);

/// The options with `prepare_memory_bytes` sized, if it is kAutoBytes.
DiskgnnOptions WithMeasuredDiskgnnBudgets(DiskgnnOptions options,
                                          const MemoryBasis& basis);

/// The memory that ForecastDiskgnn (forecast/forecast.h) holds at most.
MemoryEstimate EstimateDiskgnnForecastMemory(const DiskgnnOptions& options,
                                             const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_H_
