#include "engine/strategy/outre/outre.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/plan/partition/partition.h"
#include "engine/strategy/outre/dynamic_neighbor_cache.h"
#include "engine/strategy/superbatch/neighbor_lists.h"
#include "engine/strategy/superbatch/superbatch_options.h"
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

SuperbatchRecipe RecipeOf(const OutreOptions& options,
                          std::shared_ptr<const plan::Partition> partition,
                          const Clock& clock) {
  return {.name = "outre",
          .options = ToSuperbatchOptions(options),
          .lists = std::make_unique<DynamicNeighborCache>(std::move(partition),
                                                          clock)};
}

absl::Status CheckPartition(const plan::Partition* partition) {
  if (partition != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "strategy outre needs the parts of order partition");
}

// The lists of the static neighbor cache, and the lists of all parts in a
// batch's macro batches.
class OutreLists final : public ResidentLists {
 public:
  static absl::StatusOr<std::unique_ptr<OutreLists>> Find(
      const SuperbatchOptions& options, const ResidentListsRequest& request) {
    const uint64_t dynamic_bytes =
        DynamicNeighborBudget::Of(*request.partition, request.passes,
                                  options.NeighborBytes())
            .reserved_bytes;
    HEARTH_ASSIGN_OR_RETURN(
        NeighborCacheLists fixed,
        NeighborCacheLists::Find(options.neighbor_rank,
                                 options.NeighborBytes() - dynamic_bytes,
                                 request));
    std::vector<uint16_t> parts;
    if (dynamic_bytes > 0) {
      HEARTH_ASSIGN_OR_RETURN(parts, request.partition->LoadParts());
    }
    return std::unique_ptr<OutreLists>(
        new OutreLists(std::move(fixed), std::move(parts),
                       request.partition->parts(), request.passes.front()));
  }

  bool Has(int64_t batch, store::NodeId node) const override {
    if (fixed_.Has(batch, node)) return true;
    if (parts_.empty()) return false;
    const MacroBatchRange range = macro_batches_.Of(batch);
    const int64_t of_node = macro_batch_of_[parts_[static_cast<size_t>(node)]];
    return range.first <= of_node && of_node < range.end;
  }

 private:
  // Marks a part without seeds, which is in no macro batch.
  static constexpr int64_t kNone = -1;

  OutreLists(NeighborCacheLists fixed, std::vector<uint16_t> parts,
             int num_parts, const Pass& pass)
      : fixed_(std::move(fixed)),
        parts_(std::move(parts)),
        macro_batches_(pass),
        macro_batch_of_(static_cast<size_t>(num_parts), kNone) {
    for (size_t number = 0; number < macro_batches_.all().size(); ++number) {
      for (const uint16_t part : macro_batches_.all()[number].parts) {
        macro_batch_of_[part] = static_cast<int64_t>(number);
      }
    }
  }

  const NeighborCacheLists fixed_;
  // [num_nodes] the part of each node; empty without a dynamic cache.
  const std::vector<uint16_t> parts_;
  const PassMacroBatches macro_batches_;
  // [parts] the macro batch of each part, or kNone.
  std::vector<int64_t> macro_batch_of_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewOutreStrategy(
    const OutreOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  HEARTH_RETURN_IF_ERROR(CheckPartition(resources.partition.get()));
  return NewSuperbatchStrategy(
      RecipeOf(options, resources.partition, resources.clock), pipeline,
      dataset, resources);
}

absl::StatusOr<MemoryEstimate> EstimateOutreMemory(const OutreOptions& options,
                                                   const MemoryBasis& basis) {
  return EstimateSuperbatchMemory(ToSuperbatchOptions(options), basis);
}

MemoryEstimate EstimateOutreForecastMemory(const OutreOptions& options,
                                           const MemoryBasis& basis) {
  return EstimateSuperbatchForecastMemory(ToSuperbatchOptions(options), basis);
}

std::vector<BudgetOf<OutreOptions>> OutreBudgets(const OutreOptions& options,
                                                 const MemoryBasis& basis) {
  return SuperbatchBudgets(options, basis);
}

std::string DescribeOutreLists(const OutreOptions& options) {
  return absl::StrCat("dynamic and ",
                      DescribeNeighborCache(ToSuperbatchOptions(options)));
}

absl::StatusOr<std::unique_ptr<ResidentLists>> FindOutreLists(
    const OutreOptions& options, const ResidentListsRequest& request) {
  HEARTH_RETURN_IF_ERROR(CheckPartition(request.partition.get()));
  return OutreLists::Find(ToSuperbatchOptions(options), request);
}

absl::StatusOr<Forecast> ForecastOutre(const OutreOptions& options,
                                       const ForecastContext& context,
                                       const ForecastRequest& request) {
  HEARTH_RETURN_IF_ERROR(CheckPartition(context.partition.get()));
  HEARTH_ASSIGN_OR_RETURN(
      Forecast forecast,
      ForecastSuperbatch(RecipeOf(options, context.partition, context.clock),
                         context, request));
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
