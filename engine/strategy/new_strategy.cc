#include "engine/strategy/new_strategy.h"

#include <variant>

#include "engine/strategy/addressable/addressable.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/diskgnn/memory_bound.h"
#include "engine/strategy/ginex/ginex.h"
#include "engine/strategy/gnndrive/gnndrive.h"

namespace hearth::strategy {
namespace {

store::Residency ResidencyOf(const MmapOptions& options) {
  return options.read_ahead ? store::Residency::kMappedWithReadAhead
                            : store::Residency::kMapped;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewStrategy(
    const StrategyOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  struct Visitor {
    const PipelineOptions& pipeline;
    const store::Dataset& dataset;
    const StrategyResources& resources;
    absl::StatusOr<std::unique_ptr<Strategy>> operator()(const MemoryOptions&) {
      return NewAddressableStrategy(store::Residency::kMemory, pipeline,
                                    dataset, resources.clock);
    }
    absl::StatusOr<std::unique_ptr<Strategy>> operator()(
        const MmapOptions& options) {
      return NewAddressableStrategy(ResidencyOf(options), pipeline, dataset,
                                    resources.clock);
    }
    absl::StatusOr<std::unique_ptr<Strategy>> operator()(
        const GnndriveOptions& options) {
      return NewGnndriveStrategy(options, pipeline, dataset, resources);
    }
    absl::StatusOr<std::unique_ptr<Strategy>> operator()(
        const GinexOptions& options) {
      return NewGinexStrategy(options, pipeline, dataset, resources);
    }
    absl::StatusOr<std::unique_ptr<Strategy>> operator()(
        const DiskgnnOptions& options) {
      return NewDiskgnnStrategy(options, pipeline, dataset, resources);
    }
  };
  return std::visit(Visitor{pipeline, dataset, resources}, options);
}

absl::StatusOr<MemoryEstimate> EstimateMemory(const StrategyOptions& options,
                                              const MemoryBasis& basis) {
  struct Visitor {
    const MemoryBasis& basis;
    absl::StatusOr<MemoryEstimate> operator()(const MemoryOptions&) {
      return EstimateAddressableMemory(store::Residency::kMemory, basis);
    }
    absl::StatusOr<MemoryEstimate> operator()(const MmapOptions& options) {
      return EstimateAddressableMemory(ResidencyOf(options), basis);
    }
    absl::StatusOr<MemoryEstimate> operator()(const GnndriveOptions& options) {
      return EstimateGnndriveMemory(options, basis);
    }
    absl::StatusOr<MemoryEstimate> operator()(const GinexOptions& options) {
      return EstimateGinexMemory(options, basis);
    }
    absl::StatusOr<MemoryEstimate> operator()(const DiskgnnOptions& options) {
      return EstimateDiskgnnMemory(options, basis);
    }
  };
  return std::visit(Visitor{basis}, options);
}

}  // namespace hearth::strategy
