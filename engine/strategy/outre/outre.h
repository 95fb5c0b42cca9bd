#ifndef HEARTH_ENGINE_STRATEGY_OUTRE_OUTRE_H_
#define HEARTH_ENGINE_STRATEGY_OUTRE_OUTRE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Options of strategy `outre`.
struct OutreOptions {
  /// Bytes of the feature cache; while a superbatch is sampled, of the neighbor
  /// caches.
  uint64_t cpu_cache_bytes = 0;
  /// Bytes of the static and the dynamic neighbor cache together; 0 =
  /// cpu_cache_bytes.
  uint64_t neighbor_cache_bytes = 0;
  /// Batches in a superbatch; 0 = as many as disk and memory hold, at most an
  /// epoch.
  int64_t superbatch = 0;
  /// Reads that each reading thread keeps in flight.
  int io_depth = 64;

  bool operator==(const OutreOptions&) const = default;
};

/// OUTRE (Sheng et al., PVLDB 2024): batches of a partition's parts, whose
/// neighbor lists are read together into a dynamic neighbor cache beside a
/// static one; samples a superbatch ahead of its execution, so that the feature
/// cache can be the optimal one. See README.md.
///
/// INVALID_ARGUMENT for a negative superbatch, a bad depth, or `resources`
/// without a partition; otherwise see NewStrategy for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewOutreStrategy(
    const OutreOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// The memory that it holds at most; never an error.
absl::StatusOr<MemoryEstimate> EstimateOutreMemory(const OutreOptions& options,
                                                   const MemoryBasis& basis);

/// As ForecastSuperbatch, with a note on how the memory for neighbor lists is
/// shared. INVALID_ARGUMENT as NewOutreStrategy; otherwise see MakeForecast.
absl::StatusOr<Forecast> ForecastOutre(const OutreOptions& options,
                                       const ForecastContext& context,
                                       const ForecastRequest& request);

MemoryEstimate EstimateOutreForecastMemory(const OutreOptions& options,
                                           const MemoryBasis& basis);

/// See SuperbatchBudgets (superbatch/superbatch_options.h).
std::vector<BudgetOf<OutreOptions>> OutreBudgets(const OutreOptions& options,
                                                 const MemoryBasis& basis);

/// See DescribeResidentLists and FindResidentLists (kinds.h).
std::string DescribeOutreLists(const OutreOptions& options);
absl::StatusOr<std::unique_ptr<ResidentLists>> FindOutreLists(
    const OutreOptions& options, const ResidentListsRequest& request);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_OUTRE_OUTRE_H_
