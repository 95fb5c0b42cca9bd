#include "engine/strategy/new_strategy.h"

#include <variant>

#include "engine/strategy/addressable/addressable.h"

namespace hearth::strategy {

absl::StatusOr<std::unique_ptr<Strategy>> NewStrategy(
    const StrategyOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const Clock& clock) {
  struct Visitor {
    const PipelineOptions& pipeline;
    const store::Dataset& dataset;
    const Clock& clock;
    absl::StatusOr<std::unique_ptr<Strategy>> operator()(const MemoryOptions&) {
      return NewAddressableStrategy(store::Residency::kMemory, pipeline,
                                    dataset, clock);
    }
    absl::StatusOr<std::unique_ptr<Strategy>> operator()(const MmapOptions&) {
      return NewAddressableStrategy(store::Residency::kMapped, pipeline,
                                    dataset, clock);
    }
  };
  return std::visit(Visitor{pipeline, dataset, clock}, options);
}

}  // namespace hearth::strategy
