#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Options of strategy `foresight`.
struct ForesightOptions {
  /// Bytes of the cache in host memory.
  uint64_t cpu_cache_bytes = 0;
  /// Bytes of the cache in GPU memory: its first slots. Batches are then
  /// assembled on the GPU. Plans depend on the sum of both.
  uint64_t gpu_cache_bytes = 0;
  /// Bytes of samples and plans on disk at a time; 0 = no limit but the disk's.
  uint64_t disk_limit_bytes = 0;
  /// disk_limit_bytes as a multiple of the features' bytes; 0 = unset.
  double disk_limit_ratio = 0;
  /// Epochs that are prepared before the first batch, at most
  /// Timeline::kMostPasses: half of one, so that training begins soon; more for
  /// fewer scans of the features.
  double first_epochs = 0.5;
  /// Reads that each reading thread keeps in flight.
  int io_depth = 64;
  /// Whether generations are made while no batch is on its way to the trainer,
  /// so that memory is held for the one or the other: costs nothing where one
  /// generation has all epochs. See WithMeasuredForesightBudgets.
  bool makes_apart = false;

  bool operator==(const ForesightOptions&) const = default;
};

/// Slots of the cache, each for a row: in GPU memory, and in host memory.
struct SlotCounts {
  int64_t gpu = 0;
  int64_t host = 0;

  int64_t total() const { return gpu + host; }
};

/// The slots that the budgets pay for, at most one for each row.
SlotCounts SlotsOf(const ForesightOptions& options, int64_t num_rows,
                   int64_t row_bytes);

/// Prepares the first epochs before training and the rest while it trains:
/// samples ahead, plans an optimal cache through all passes of the job
/// (plan::OptimalCache; Belady, "A study of replacement algorithms for a
/// virtual-storage computer", 1966), and packs the rows that the cache lacks,
/// in one scan of the features a generation, or reads them directly where that
/// is cheaper. See README.md.
///
/// INVALID_ARGUMENT for a bad depth or number of epochs, and for 2^32 - 1 nodes
/// or more; FAILED_PRECONDITION for a GPU cache without a GPU; otherwise see
/// NewStrategy for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewForesightStrategy(
    const ForesightOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// The memory that the strategy holds at most, preparing included; never an
/// error.
absl::StatusOr<MemoryEstimate> EstimateForesightMemory(
    const ForesightOptions& options, const MemoryBasis& basis);

/// The options with makes_apart set if the first generation has all passes of
/// the job.
ForesightOptions WithMeasuredForesightBudgets(ForesightOptions options,
                                              const MemoryBasis& basis);

/// Budgets that may be cut so that a job fits into memory, in the order of
/// cutting.
std::vector<BudgetOf<ForesightOptions>> ForesightBudgets(
    const ForesightOptions& options, const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_H_
