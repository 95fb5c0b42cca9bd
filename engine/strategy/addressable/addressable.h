#ifndef HEARTH_ENGINE_STRATEGY_ADDRESSABLE_ADDRESSABLE_H_
#define HEARTH_ENGINE_STRATEGY_ADDRESSABLE_ADDRESSABLE_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/thread_team.h"
#include "engine/io/row_reader.h"
#include "engine/store/dataset.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Strategy `memory`: features and topology in memory. The reference for all
/// other strategies.
struct MemoryOptions {
  bool operator==(const MemoryOptions&) const = default;
};

/// Strategy `mmap`: features and neighbors mapped from the dataset's files; the
/// page cache decides what stays (the PyG+ baseline of the Ginex paper, section
/// 2.3). The indptr, 8 bytes a node, is in memory.
struct MmapOptions {
  /// The kernel reads ahead by the disk's read_ahead_kb, instead of single
  /// pages.
  bool read_ahead = false;

  bool operator==(const MmapOptions&) const = default;
};

/// Makes the strategies whose feature rows all have an address: `memory` and
/// `mmap`. Stages: sample, assemble, train. See NewStrategy (kinds.h) for
/// lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewAddressableStrategy(
    const MemoryOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);
absl::StatusOr<std::unique_ptr<Strategy>> NewAddressableStrategy(
    const MmapOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// Takes memory for the input rows of a sampled batch and copies them there,
/// all `assemblers` together. A null `check` checks no row. DATA_LOSS naming
/// the row that does not match; errors of SampledBatch::TakeInputs and of
/// LoadedFeatures::status.
absl::Status AssembleAddressable(const store::LoadedFeatures& features,
                                 const io::RowCheck* check,
                                 ThreadTeam& assemblers, BufferPool& buffers,
                                 SampledBatch& batch);

/// The memory that a strategy holds at most; never an error.
absl::StatusOr<MemoryEstimate> EstimateAddressableMemory(
    const MemoryOptions& options, const MemoryBasis& basis);
absl::StatusOr<MemoryEstimate> EstimateAddressableMemory(
    const MmapOptions& options, const MemoryBasis& basis);

/// Budgets that may be cut so that a job fits into memory: "samplers" alone.
std::vector<BudgetOf<MemoryOptions>> AddressableBudgets(
    const MemoryOptions& options, const MemoryBasis& basis);
std::vector<BudgetOf<MmapOptions>> AddressableBudgets(
    const MmapOptions& options, const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_ADDRESSABLE_ADDRESSABLE_H_
