#include "engine/strategy/outre/outre.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/plan/partition/partition.h"
#include "engine/strategy/outre/dynamic_neighbor_cache.h"
#include "engine/strategy/row_count.h"
#include "engine/strategy/superbatch/memory_bound.h"
#include "engine/strategy/superbatch/options.h"
#include "engine/strategy/superbatch/superbatch_strategy.h"

namespace hearth::strategy {
namespace {

SuperbatchOptions ToSuperbatchOptions(const OutreOptions& options) {
  return {.cpu_cache_bytes = options.cpu_cache_bytes,
          .neighbor_cache_bytes = options.neighbor_cache_bytes,
          .neighbor_rank = NeighborRank::kCross,
          .superbatch = options.superbatch,
          .io_depth = options.io_depth};
}

absl::Status CheckPartition(const plan::Partition* partition) {
  if (partition != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "strategy outre needs the parts of order partition");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewOutreStrategy(
    const OutreOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  HEARTH_RETURN_IF_ERROR(CheckPartition(resources.partition.get()));
  return NewSuperbatchStrategy({.name = "outre",
                                .options = ToSuperbatchOptions(options),
                                .lists = std::make_unique<DynamicNeighborCache>(
                                    resources.partition, resources.clock)},
                               pipeline, dataset, resources);
}

absl::StatusOr<MemoryEstimate> EstimateOutreMemory(const OutreOptions& options,
                                                   const MemoryBasis& basis) {
  return EstimateSuperbatchMemory(ToSuperbatchOptions(options), basis);
}

absl::StatusOr<Forecast> ForecastOutre(const OutreOptions& options,
                                       const ForecastContext& context,
                                       const ForecastRequest& request) {
  HEARTH_RETURN_IF_ERROR(CheckPartition(context.partition.get()));
  HEARTH_ASSIGN_OR_RETURN(Forecast forecast, CountRows(context, request));
  forecast.notes.push_back(
      "Reads and time of strategy outre are not forecast: they depend on what "
      "its caches hold when.");
  const uint64_t budget_bytes = ToSuperbatchOptions(options).NeighborBytes();
  const std::string lists =
      DynamicNeighborBudget::Of(*context.partition, request.passes,
                                budget_bytes)
          .Describe(budget_bytes);
  if (!lists.empty()) {
    forecast.notes.push_back(absl::StrCat("Neighbor lists: ", lists, "."));
  }
  return forecast;
}

}  // namespace hearth::strategy
