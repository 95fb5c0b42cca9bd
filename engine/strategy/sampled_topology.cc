#include "engine/strategy/sampled_topology.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::strategy {

absl::StatusOr<SampledTopology> LoadSampledTopology(
    const store::Dataset& dataset, store::Residency indices,
    const PipelineOptions& pipeline, const StrategyResources& resources) {
  const bool on_gpu = pipeline.sampling_gpu.has_value();
  SampledTopology loaded;
  HEARTH_ASSIGN_OR_RETURN(
      loaded.topology,
      dataset.LoadTopology({store::Residency::kMemory,
                            on_gpu ? store::Residency::kMemory : indices},
                           resources.stop));
  if (!on_gpu) return loaded;
  const auto number = static_cast<size_t>(*pipeline.sampling_gpu);
  if (number >= resources.gpus.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("sample_on: there is no cuda:", number));
  }
  HEARTH_ASSIGN_OR_RETURN(
      loaded.gpu, sample::DeviceTopology::Register(resources.gpus[number],
                                                   loaded.topology->relations(),
                                                   loaded.topology->nodes()));
  return loaded;
}

}  // namespace hearth::strategy
