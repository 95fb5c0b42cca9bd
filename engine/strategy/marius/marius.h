#ifndef HEARTH_ENGINE_STRATEGY_MARIUS_MARIUS_H_
#define HEARTH_ENGINE_STRATEGY_MARIUS_MARIUS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Options of strategy `marius`.
struct MariusOptions {
  /// Parts that the nodes are cut into; 0 = chosen from the data and the buffer
  /// (NodePartitions::Make). A buffer that holds everything has one.
  int32_t partitions = 0;
  /// Bytes of the partition buffer: rows and neighbor lists of the nodes in
  /// memory. Batches depend on it.
  uint64_t partition_buffer_bytes = kAutoBytes;

  bool operator==(const MariusOptions&) const = default;
};

/// MariusGNN (Waleffe et al., EuroSys 2023): batches of training are sampled
/// from the part of the graph that is in memory, and from no other, so that
/// rows are read in whole partitions, from one end to the other. An epoch of
/// node classification has all training nodes and a random set of partitions in
/// memory, or, where the training nodes do not fit, sets of partitions one
/// after the other (PlanStates). Training is not exact, but the same for equal
/// options, at any number of threads, and after a resume.
///
/// Validation and test (Pass::evaluates) are exact, as in the paper's artifact
/// (full_graph_evaluation): from the whole graph, with mapped rows.
///
/// INVALID_ARGUMENT for a negative number of partitions, and, in Run, for a
/// history where the buffer changes within the pass; RESOURCE_EXHAUSTED, in
/// Run, for a buffer that does not hold a partition; otherwise see NewStrategy.
absl::StatusOr<std::unique_ptr<Strategy>> NewMariusStrategy(
    const MariusOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// The memory that it holds at most; never an error.
absl::StatusOr<MemoryEstimate> EstimateMariusMemory(
    const MariusOptions& options, const MemoryBasis& basis);

/// Bytes of a partition buffer that holds the whole graph.
uint64_t AllMariusBytes(const MemoryBasis& basis);

/// "samplers", and "partition-buffer", of which a cut changes batches, as the
/// option itself does.
std::vector<BudgetOf<MariusOptions>> MariusBudgets(const MariusOptions& options,
                                                   const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_MARIUS_MARIUS_H_
