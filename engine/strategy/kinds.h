#ifndef HEARTH_ENGINE_STRATEGY_KINDS_H_
#define HEARTH_ENGINE_STRATEGY_KINDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/strategy/addressable/addressable.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/ginex/ginex.h"
#include "engine/strategy/gnndrive/gnndrive.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/outre/outre.h"
#include "engine/strategy/strategy.h"

/// All strategies there are. Whoever runs jobs asks here, and knows no strategy
/// by name. A strategy is added as an alternative of StrategyOptions and an
/// entry of the table in kinds.cc.

namespace hearth::strategy {

/// One alternative per strategy, in the order of hearth.v1.DataSpec.strategy.
using StrategyOptions =
    std::variant<MemoryOptions, MmapOptions, GnndriveOptions, GinexOptions,
                 DiskgnnOptions, OutreOptions, GidsOptions>;

/// Choices of a job about a strategy that change no batch.
using StrategyConfiguration = Configuration<StrategyOptions>;

/// The facts about a strategy that hold whatever its options.
struct StrategyKind {
  /// The name of its field in hearth.v1.DataSpec, too.
  absl::string_view name;
  /// Whether Strategy::Prepare has to be told the passes: the list is as long
  /// as there are epochs.
  bool prepares = false;
  /// Whether Strategy::Prepare makes plans that jobs can share.
  bool makes_plans = false;
  /// Whether its memory grows with the batches so much that these have to be
  /// measured: a bound by the fan-outs alone would be far too high.
  bool needs_measured_batches = false;
  /// Whether batches need rows of the feature file that nothing has verified
  /// before: StrategyResources::row_check does.
  bool reads_single_rows = false;
  /// Whether neighbors stay on disk, mapped or read one by one: they are
  /// verified before the first batch, not whenever they are read.
  bool leaves_neighbors_on_disk = true;
  /// Whether a GPU may sample (PipelineOptions::sampling_gpu): batches are
  /// sampled from memory, or mapped files, as they are needed.
  bool samples_on_gpu = false;
};

/// Every strategy, in the order of the alternatives.
absl::Span<const StrategyKind> StrategyKinds();

const StrategyKind& KindOf(const StrategyOptions& options);

/// The strategy's name: "memory", "mmap", ...
std::string Name(const StrategyOptions& options);

/// Whether batches are delivered in the order of their numbers, so that those
/// of a pass that was stopped are its first ones.
bool DeliversInOrder(const StrategyOptions& options);

/// Loads, maps or opens what the strategy needs of `dataset`, which must
/// outlive it, as must what `resources` refers to.
/// INVALID_ARGUMENT for options out of range, or for a GPU that is to sample
/// where the strategy samples on none; FAILED_PRECONDITION, naming the option,
/// for rows or samplers on a GPU where `resources` has none.
absl::StatusOr<std::unique_ptr<Strategy>> NewStrategy(
    const StrategyOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// Memory that the passes of a strategy hold at most. RESOURCE_EXHAUSTED, with
/// the numbers, if the options' own budgets leave no room for a batch.
absl::StatusOr<MemoryEstimate> EstimateMemory(const StrategyOptions& options,
                                              const MemoryBasis& basis);

/// Budgets that may be cut so that a job with a basis fits into memory, in this
/// order. Amounts asked for are those of `options` and of the basis's pipeline.
std::vector<Budget> BudgetsOf(const StrategyOptions& options,
                              const MemoryBasis& basis);

/// The same configuration with other amounts of BudgetsOf, none more than
/// asked.
StrategyConfiguration WithBudgets(const StrategyOptions& options,
                                  const MemoryBasis& basis,
                                  absl::Span<const uint64_t> amounts);

/// The options with a cache for rows of kAutoBytes, if it is that, sized: all
/// rows of `manifest`, but at most half of `limit_bytes`.
StrategyOptions WithAutoBudgets(StrategyOptions options,
                                const store::Manifest& manifest,
                                uint64_t limit_bytes);

/// The options with other budgets of kAutoBytes sized, which follow from how
/// large batches are.
StrategyOptions WithMeasuredBudgets(StrategyOptions options,
                                    const MemoryBasis& basis);

/// Tells the work of a strategy before it is done; where a strategy has no
/// forecast of its own, the rows that it needs (row_count.h). Leaves no file.
/// Errors are those that Strategy::Prepare would have, as far as they can be
/// foreseen; CANCELLED when a stop is requested.
absl::StatusOr<Forecast> MakeForecast(const StrategyOptions& options,
                                      const ForecastContext& context,
                                      const ForecastRequest& request);

/// Text that differs where the options let other neighbor lists be in memory
/// while batches are sampled.
std::string DescribeResidentLists(const StrategyOptions& options);

/// Which neighbor lists are in memory then. Takes memory for a few numbers a
/// node. Errors of ranking lists; CANCELLED when a stop is requested.
absl::StatusOr<std::unique_ptr<ResidentLists>> FindResidentLists(
    const StrategyOptions& options, const ResidentListsRequest& request);

/// The memory for rows that embeddings of earlier batches may share (OUTRE,
/// section 4.4), in bytes; nullopt if the strategy has none.
std::optional<uint64_t> SharedCacheBytes(const StrategyOptions& options);

/// The options with another size of that memory, where there is such.
StrategyOptions WithSharedCache(StrategyOptions options, uint64_t bytes);

/// Memory that MakeForecast holds at most.
MemoryEstimate EstimateForecastMemory(const StrategyOptions& options,
                                      const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_KINDS_H_
