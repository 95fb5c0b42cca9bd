#ifndef HEARTH_ENGINE_STRATEGY_GNNDRIVE_GNNDRIVE_H_
#define HEARTH_ENGINE_STRATEGY_GNNDRIVE_GNNDRIVE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Options of strategy `gnndrive`.
struct GnndriveOptions {
  /// Bytes of rows kept beyond the reserved ones: the standby list (section
  /// 4.2).
  uint64_t cpu_cache_bytes = 0;
  /// Bytes of rows reserved for batches in flight; 0 = one batch of the largest
  /// measured size for each extractor. With less, fewer extractors run.
  uint64_t staging_bytes = 0;
  /// Batches are delivered as they become ready, instead of in order.
  bool reorder = false;
  /// Reads go through the page cache (section 4.4).
  bool buffered_reads = false;
  /// Batches that may wait for extraction (sample_queue) and for assembly
  /// (train_queue).
  int sample_queue = 6;
  int train_queue = 4;
  /// Reads that each extractor keeps in flight.
  int io_depth = 64;

  bool operator==(const GnndriveOptions&) const = default;
};

/// GNNDrive: Jiang, Jia and Wang, "Reducing Memory Contention and I/O
/// Congestion for Disk-based GNN Training", ICPP 2024. Stages: sample, extract,
/// assemble, train; see README.md. See NewStrategy for lifetimes and errors. A
/// pass is RESOURCE_EXHAUSTED, with the numbers, if the budgets do not hold a
/// batch, and ends with the reads' error where rows cannot be read.
absl::StatusOr<std::unique_ptr<Strategy>> NewGnndriveStrategy(
    const GnndriveOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// The memory that it holds at most. RESOURCE_EXHAUSTED if the options do not
/// hold a batch (see PlanSlots).
absl::StatusOr<MemoryEstimate> EstimateGnndriveMemory(
    const GnndriveOptions& options, const MemoryBasis& basis);

/// Budgets that may be cut so that a job fits into memory, in the order of
/// cutting.
std::vector<BudgetOf<GnndriveOptions>> GnndriveBudgets(
    const GnndriveOptions& options, const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GNNDRIVE_GNNDRIVE_H_
