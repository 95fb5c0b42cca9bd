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

/// OUTRE (Sheng et al., 2024): batches of a partition's parts, whose neighbor
/// lists are read together, and an optimal cache for each superbatch.
struct OutreOptions {
  /// Rows kept; while a superbatch is sampled, neighbor lists instead.
  uint64_t cpu_cache_bytes = 0;
  /// Neighbor lists kept, those of macro batches included; 0 =
  /// cpu_cache_bytes.
  uint64_t neighbor_cache_bytes = 0;
  /// Batches in a superbatch; 0 = an epoch, or what disk and memory let.
  int64_t superbatch = 0;
  /// Reads that each reading thread keeps in flight.
  int io_depth = 64;

  bool operator==(const OutreOptions&) const = default;
};

/// OUTRE (Sheng et al., PVLDB 2024): samples a superbatch ahead of its
/// execution, so that the feature cache can be the optimal one; finds neighbors
/// in a static and a dynamic neighbor cache. See README.md.
///
/// INVALID_ARGUMENT for a negative superbatch, a bad depth, or `resources`
/// without a partition; otherwise see NewStrategy for lifetimes and errors.
absl::StatusOr<std::unique_ptr<Strategy>> NewOutreStrategy(
    const OutreOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// Memory that it holds at most; never an error.
absl::StatusOr<MemoryEstimate> EstimateOutreMemory(const OutreOptions& options,
                                                   const MemoryBasis& basis);

/// As ForecastSuperbatch, and how it shares out the memory for neighbor lists.
/// INVALID_ARGUMENT as NewOutreStrategy; otherwise see MakeForecast.
absl::StatusOr<Forecast> ForecastOutre(const OutreOptions& options,
                                       const ForecastContext& context,
                                       const ForecastRequest& request);

MemoryEstimate EstimateOutreForecastMemory(const OutreOptions& options,
                                           const MemoryBasis& basis);

/// See superbatch/superbatch_options.h.
std::vector<BudgetOf<OutreOptions>> OutreBudgets(const OutreOptions& options,
                                                 const MemoryBasis& basis);

/// See kinds.h.
std::string DescribeOutreLists(const OutreOptions& options);
absl::StatusOr<std::unique_ptr<ResidentLists>> FindOutreLists(
    const OutreOptions& options, const ResidentListsRequest& request);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_OUTRE_OUTRE_H_
