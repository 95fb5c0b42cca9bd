#ifndef HEARTH_ENGINE_STRATEGY_KINDS_H_
#define HEARTH_ENGINE_STRATEGY_KINDS_H_

#include <cstddef>
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
#include "engine/strategy/foresight/foresight.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/ginex/ginex.h"
#include "engine/strategy/gnndrive/gnndrive.h"
#include "engine/strategy/marius/marius.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/outre/outre.h"
#include "engine/strategy/pricing/price.h"
#include "engine/strategy/strategy.h"

/// The table of all strategies. Jobs and the server use strategies through
/// these functions, and name none. A new strategy is an alternative of
/// StrategyOptions and an entry of the table in kinds.cc.

namespace hearth::strategy {

/// The options of any strategy: one alternative each, in the order of
/// hearth.v1.DataSpec.strategy.
using StrategyOptions =
    std::variant<MemoryOptions, MmapOptions, GnndriveOptions, GinexOptions,
                 DiskgnnOptions, OutreOptions, GidsOptions, ForesightOptions,
                 MariusOptions>;

/// Options of a strategy and of its pipeline, whose budgets can be cut.
using StrategyConfiguration = Configuration<StrategyOptions>;

/// Properties of a strategy that hold for all of its options.
struct StrategyKind {
  /// Also the name of its field in hearth.v1.DataSpec.
  absl::string_view name;
  /// Whether Strategy::Prepare must be called. False spares listing a pass for
  /// every epoch.
  bool prepares = false;
  /// Whether Strategy::Prepare takes all passes of a job at once and prepares
  /// for the first ones alone; PrepareAhead prepares for the others while they
  /// run.
  bool prepares_throughout = false;
  /// Whether Strategy::Prepare makes plans that jobs can share.
  bool makes_plans = false;
  /// Whether memory must be estimated from measured batches, since it grows
  /// with them: bounds by the fan-outs alone would be far too high.
  bool needs_measured_batches = false;
  /// Whether rows of the feature file are read that nothing has verified
  /// before, so that StrategyResources::row_check is needed.
  bool reads_single_rows = false;
  /// Whether rows of features come from scans that know which rows are wanted
  /// (store::Dataset::ScanRows) alone, so that a shard suffices.
  bool takes_shards = false;
  /// Whether neighbors stay on disk, mapped or read list by list. They are then
  /// verified before the first batch, not at each read.
  bool leaves_neighbors_on_disk = true;
  /// Whether a GPU may sample (PipelineOptions::sampling_gpu). False for
  /// strategies that sample from disk or ahead of the pass.
  bool samples_on_gpu = false;
  /// Whether neighbors can be in memory or mapped as PipelineOptions::topology
  /// says. False for strategies that read them list by list.
  bool places_topology = false;
  /// Whether batches are sampled beforehand, so that it can be done slab by
  /// slab (TopologyPlace::kSlabs).
  bool samples_in_slabs = false;
  /// Whether seeds may be asked for while a pass runs (Pass::requests). False
  /// for strategies that plan passes ahead.
  bool takes_requests = false;
  /// Whether training has the batches of `memory` (Pass). Validation and test
  /// have them in every strategy.
  bool exact = true;
  /// Whether training passes may have a history (Pass::history).
  bool takes_history = true;
  /// Whether seeds must be in the order of a partition.
  bool needs_partition = false;
};

/// Budgets and widths that strategies have in common, each as far as it has
/// them.
struct CommonBudgets {
  /// Rows in memory; kAutoBytes: see WithAutoBudgets.
  uint64_t cpu_cache_bytes = kAutoBytes;
  uint64_t gpu_cache_bytes = 0;
  /// Rows of batches in flight; 0: as the strategy has it by default.
  uint64_t staging_bytes = 0;
  /// Reads in flight; 0: as the strategy has it by default.
  int io_depth = 0;
  /// Epochs prepared before the first batch by a strategy that prepares
  /// throughout; 0: as the strategy has it by default.
  double first_epochs = 0;

  bool operator==(const CommonBudgets&) const = default;
};

/// Every strategy, in the order of the alternatives.
absl::Span<const StrategyKind> StrategyKinds();

const StrategyKind& KindOf(const StrategyOptions& options);

/// The strategy's name: "memory", "mmap", ...
std::string Name(const StrategyOptions& options);

/// Whether batches are delivered in the order of their numbers. If so, a
/// stopped pass has delivered its first batches.
bool DeliversInOrder(const StrategyOptions& options);

/// Whether training has the batches of `memory`, in their order.
bool IsExact(const StrategyOptions& options);

/// Whether input rows may be left where they lie (Pass::rows_in_place).
bool LeavesRowsInPlace(const StrategyOptions& options);

/// Makes a strategy: loads, maps or opens what it needs of `dataset`, which
/// must outlive it, as must everything that `resources` refers to.
/// INVALID_ARGUMENT for options out of range, for a GPU that is to sample where
/// the strategy samples on none, or as CheckTopology; FAILED_PRECONDITION,
/// naming the option, for rows or samplers on a GPU where `resources` has none.
absl::StatusOr<std::unique_ptr<Strategy>> NewStrategy(
    const StrategyOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// INVALID_ARGUMENT, naming the option, if the strategy cannot have its
/// topology where `pipeline` says.
absl::Status CheckTopology(const StrategyOptions& options,
                           const PipelineOptions& pipeline);

/// `pipeline` with the topology in slabs, if its place is left to the strategy,
/// which can sample slab by slab, and the topology is larger than half of
/// `limit_bytes`: mapped, it would not stay in the page cache, and each draw
/// would be a read.
PipelineOptions WithAutoTopology(const StrategyOptions& options,
                                 PipelineOptions pipeline,
                                 const store::Manifest& manifest,
                                 uint64_t limit_bytes);

/// Whether neighbors stay on disk while the strategy samples
/// (StrategyKind::leaves_neighbors_on_disk, where `pipeline` does not say
/// otherwise), verified before the first batch.
bool LeavesNeighborsOnDisk(const StrategyOptions& options,
                           const PipelineOptions& pipeline);

/// The memory that the passes of a strategy hold at most. RESOURCE_EXHAUSTED,
/// with the numbers, if the options' own budgets do not hold a batch.
absl::StatusOr<MemoryEstimate> EstimateMemory(const StrategyOptions& options,
                                              const MemoryBasis& basis);

/// The budgets that may be cut so that a job fits into memory, in the order of
/// cutting. Amounts asked for come from `options` and from the pipeline of
/// `basis`.
std::vector<Budget> BudgetsOf(const StrategyOptions& options,
                              const MemoryBasis& basis);

/// The configuration with `amounts` in place of the budgets of BudgetsOf, in
/// their order, none more than asked.
StrategyConfiguration WithBudgets(const StrategyOptions& options,
                                  const MemoryBasis& basis,
                                  absl::Span<const uint64_t> amounts);

/// The options with the row cache sized if it is kAutoBytes: all rows of
/// `manifest`, but at most half of `limit_bytes`.
StrategyOptions WithAutoBudgets(StrategyOptions options,
                                const store::Manifest& manifest,
                                uint64_t limit_bytes);

/// The options with what follows from sizes and numbers of batches: budgets of
/// kAutoBytes, and whether generations are made apart (ForesightOptions).
StrategyOptions WithMeasuredBudgets(StrategyOptions options,
                                    const MemoryBasis& basis);

/// The strategy with index `kind` in StrategyKinds() and these budgets, all
/// else as by default. REQUIRES: StrategyKind::exact.
StrategyOptions WithCommonBudgets(size_t kind, const CommonBudgets& budgets);

/// What a job costs with a strategy. RESOURCE_EXHAUSTED, with the numbers, if
/// its plan finds no room on the disk.
absl::StatusOr<Price> PriceOf(const StrategyOptions& options,
                              const PricedJob& job);

/// Bytes of files that the page cache is likely to keep beside `held_bytes` of
/// jobs: half of what the machine, or the cgroup, has left, since others want
/// some of it, too.
uint64_t LikelyPageCacheBytes(uint64_t held_bytes);

/// Forecasts the work of a strategy; for a strategy without a forecast of its
/// own, counts the rows that it needs (CountRows in forecast.h) and, with
/// ForecastContext::disk, takes times and reads from its price. Leaves no file.
/// Errors are those that Strategy::Prepare would have, as far as they can be
/// foreseen; CANCELLED when a stop is requested.
absl::StatusOr<Forecast> MakeForecast(const StrategyOptions& options,
                                      const ForecastContext& context,
                                      const ForecastRequest& request);

/// A text that two options share only if the same neighbor lists are in memory
/// while batches are sampled.
std::string DescribeResidentLists(const StrategyOptions& options);

/// The neighbor lists that are in memory while batches are sampled. Takes
/// memory for a few numbers a node. Errors of ranking lists; CANCELLED when a
/// stop is requested.
absl::StatusOr<std::unique_ptr<ResidentLists>> FindResidentLists(
    const StrategyOptions& options, const ResidentListsRequest& request);

/// Bytes of the row cache that embeddings of earlier batches may share (OUTRE,
/// section 4.4); nullopt if the strategy has none.
std::optional<uint64_t> SharedCacheBytes(const StrategyOptions& options);

/// The options with the shared row cache (SharedCacheBytes) of another size;
/// unchanged if there is none.
StrategyOptions WithSharedCache(StrategyOptions options, uint64_t bytes);

/// The memory that MakeForecast holds at most. `has_disk`: whether
/// ForecastContext::disk is set.
MemoryEstimate EstimateForecastMemory(const StrategyOptions& options,
                                      const MemoryBasis& basis, bool has_disk);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_KINDS_H_
