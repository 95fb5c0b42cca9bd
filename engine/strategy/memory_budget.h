#ifndef HEARTH_ENGINE_STRATEGY_MEMORY_BUDGET_H_
#define HEARTH_ENGINE_STRATEGY_MEMORY_BUDGET_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/store/feature_rows.h"
#include "engine/store/manifest.h"
#include "engine/strategy/pass.h"

/// How much memory a job holds (MemoryEstimate, from a MemoryBasis), and which
/// of its amounts can be cut so that it fits (Budget, FitBudgets). Values and
/// pure functions; nothing here allocates or reads a file.

namespace hearth::strategy {

/// The memory that a share belongs to: the host's, or a GPU's.
struct MemoryPlace {
  /// The GPU's number; absent: the host's memory.
  std::optional<int> gpu = {};

  auto operator<=>(const MemoryPlace&) const = default;
};

/// The memory of the GPU that keeps rows (StrategyResources::gpu): the first.
inline constexpr MemoryPlace kRowsOnGpu = {.gpu = 0};

/// Memory for one purpose.
struct MemoryShare {
  /// One of a few words: "topology", "features", "cache", "staging", "batches",
  /// "pins", "buffers", ...
  std::string owner;
  uint64_t bytes = 0;
  /// Whether the share stays in use between passes and is worth keeping for the
  /// next job.
  bool kept = false;
  MemoryPlace place = {};
};

/// An upper bound of memory, by purpose. Mapped files do not count: their pages
/// are the kernel's.
struct MemoryEstimate {
  std::vector<MemoryShare> shares;

  void Add(std::string owner, uint64_t bytes, bool kept = false,
           MemoryPlace place = {});
  /// Bytes of all shares at a place.
  uint64_t TotalBytes(MemoryPlace place = {}) const;
};

/// "cache 1 GiB, topology 500 MiB, ...": the shares at a place, the largest
/// first, without shares of 0 bytes.
std::string FormatShares(const MemoryEstimate& estimate,
                         MemoryPlace place = {});

/// Everything that the memory estimate of a strategy is computed from.
struct MemoryBasis {
  const store::Manifest& manifest;
  PipelineOptions pipeline;
  BatchBound batches;
  /// Shards of each batch; `batches` has the size of one shard.
  int shards = 1;
  /// Batches of the longest pass, and of all passes, each epoch key once.
  int64_t num_batches = 0;
  int64_t total_batches = 0;
  /// Whether passes are prepared while others run.
  bool prepares_ahead = false;
  /// Whether training passes have a history (Pass::history).
  bool has_history = false;
  /// StrategyResources::data_disks.
  int data_disks = 0;

  /// Nodes of all types, and bytes of the arrays of all types.
  int64_t num_nodes() const;
  uint64_t feature_bytes() const;
  uint64_t indptr_bytes() const;
  uint64_t indices_bytes() const;
  /// Bytes in memory of a topology with mapped indices; the indices count, too,
  /// where a GPU samples from them, or PipelineOptions::topology puts them into
  /// memory (LoadSampledTopology).
  uint64_t sampled_topology_bytes() const;
  /// Bytes of the labels of the node type with the most.
  uint64_t label_bytes() const;
  /// The format in which rows are kept.
  store::RowFormat row_format() const { return store::CommonFormat(manifest); }
  int64_t row_bytes() const { return row_format().row_bytes(); }
  /// Bytes of a cache of all rows, with a table of 8 bytes a node.
  uint64_t all_rows_bytes() const;
  /// Bytes of all neighbor lists, with a table of 8 bytes a node.
  uint64_t all_lists_bytes() const;
};

/// Batches that may wait before, and as many behind, the stage that decides
/// which embeddings come from earlier batches.
inline constexpr int kUndecided = 1;

/// How many shards of batches a strategy holds at a time.
struct BatchCounts {
  /// Threads that sample.
  int samplers = 1;
  /// Shards with a sample, from the sampler to the trainer.
  int sampled = 0;
  /// Of these, shards with input rows.
  int assembled = 0;
};

/// Adds the shares that all strategies have: "labels", "samplers" and
/// "batches". The samplers of a GPU are in the GPU's memory.
void AddBatches(const MemoryBasis& basis, const BatchCounts& counts,
                MemoryEstimate& estimate);

/// Budgets: amounts that can be cut so that a job fits into memory. No cut
/// changes a batch, but for the partition buffer of `marius`, whose batches
/// depend on it.

/// The number of bytes that stands for "auto". WithAutoBudgets and
/// WithMeasuredBudgets (kinds.h) replace it before anything else looks at it.
inline constexpr uint64_t kAutoBytes = UINT64_MAX;

enum class BudgetUnit { kBytes, kBatches, kThreads };

/// "bytes", "batches" or "threads".
absl::string_view Name(BudgetUnit unit);

/// An amount in a configuration that may be cut.
struct Budget {
  /// The option that sets it: "cpu-cache".
  std::string option;
  BudgetUnit unit = BudgetUnit::kBytes;
  uint64_t asked = 0;
  /// At most `asked`.
  uint64_t least = 0;
  /// The amount above which more is of no use; 0 = all of `asked` is of use.
  uint64_t useful = 0;
  /// Cuts are to multiples of this, or to `least`.
  uint64_t step = 1;
};

/// A budget that was cut.
struct BudgetCut {
  std::string option;
  BudgetUnit unit = BudgetUnit::kBytes;
  uint64_t asked = 0;
  uint64_t chosen = 0;

  bool operator==(const BudgetCut&) const = default;
};

/// "cpu-cache: 512.0 MiB instead of 1.0 GiB".
std::string Describe(const BudgetCut& cut);

/// The amounts, in the order of `budgets`, for which `estimate` is at most
/// `limit_bytes`: as asked, if that fits. Otherwise budgets are cut one after
/// the other, the first to its least before the second is touched, and the last
/// that has to be cut to the most that fits. A budget whose least takes more
/// memory than the whole stays whole: with a cache of all rows, say, no row is
/// read. If nothing fits, all budgets are at their least, or whole. REQUIRES:
/// where the whole of a budget does not fit and some amount does, all lesser
/// amounts fit. Calls `estimate` a few dozen times.
std::vector<uint64_t> FitBudgets(
    absl::Span<const Budget> budgets, uint64_t limit_bytes,
    absl::FunctionRef<uint64_t(absl::Span<const uint64_t> amounts)> estimate);

/// The budgets for which `amounts` has less than asked.
std::vector<BudgetCut> CutsOf(absl::Span<const Budget> budgets,
                              absl::Span<const uint64_t> amounts);

/// The budget of a cache, cut to multiples of 64 MiB, or of a sixteenth of it
/// if that is less. `useful_bytes` is Budget::useful.
Budget CacheBudget(std::string option, uint64_t asked_bytes,
                   uint64_t useful_bytes);

/// The part of a job's configuration that may be cut.
template <typename Options>
struct Configuration {
  Options strategy;
  PipelineOptions pipeline;
};

/// A budget of a strategy, and the function that sets its amount.
template <typename Options>
struct BudgetOf {
  Budget budget;
  std::function<void(uint64_t amount, Configuration<Options>&)> set;
};

/// The budgets "extractors" (threads that assemble rows) and "samplers", in
/// this order.
template <typename Options>
std::vector<BudgetOf<Options>> ThreadBudgets(const PipelineOptions& pipeline) {
  const auto threads = [](std::string option, int PipelineOptions::*count,
                          int asked) {
    return BudgetOf<Options>{
        .budget = {.option = std::move(option),
                   .unit = BudgetUnit::kThreads,
                   .asked = static_cast<uint64_t>(asked),
                   .least = 1},
        .set = [count](uint64_t amount, Configuration<Options>& configuration) {
          configuration.pipeline.*count = static_cast<int>(amount);
        }};
  };
  return {
      threads("extractors", &PipelineOptions::extractors, pipeline.extractors),
      threads("samplers", &PipelineOptions::samplers, pipeline.samplers)};
}

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_MEMORY_BUDGET_H_
