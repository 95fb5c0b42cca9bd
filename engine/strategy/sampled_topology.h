#ifndef HEARTH_ENGINE_STRATEGY_SAMPLED_TOPOLOGY_H_
#define HEARTH_ENGINE_STRATEGY_SAMPLED_TOPOLOGY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/sample/device_sampler.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/residency.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sample_stage.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// The topology that a strategy samples from, on the processor or on a GPU.
struct SampledTopology {
  std::unique_ptr<store::LoadedTopology> topology = nullptr;
  /// Null: the processor samples. Goes before the topology.
  std::unique_ptr<sample::DeviceTopology> gpu = nullptr;

  SampleSource With(const store::Labels& labels) const {
    return {*topology, labels, gpu.get()};
  }

  /// Gives back what is only needed during passes (Strategy::Rest).
  void Rest() {
    if (gpu != nullptr) gpu->Rest();
  }
};

/// Loads the topology of `dataset`: the indptr into memory, since a mapped one
/// would send the sampler astray where it cannot be read, and the indices as
/// `indices` says, or, for a GPU that samples, into memory, too. Errors of
/// loading it and of pinning it; FAILED_PRECONDITION, naming the option, if
/// there is no such GPU.
absl::StatusOr<SampledTopology> LoadSampledTopology(
    const store::Dataset& dataset, store::Residency indices,
    const PipelineOptions& pipeline, const StrategyResources& resources);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SAMPLED_TOPOLOGY_H_
