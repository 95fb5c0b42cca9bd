#ifndef HEARTH_ENGINE_SAMPLE_ADDRESSABLE_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_ADDRESSABLE_SAMPLER_H_

#include <memory>

#include "engine/sample/neighbor_sampler.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// Samples from arrays that can be reached by pointer, in memory or mapped;
/// they must outlive the sampler. DATA_LOSS where the topology leads out of
/// itself: its arrays were damaged.
std::unique_ptr<NeighborSampler> NewNeighborSampler(
    const store::Topology& topology, NeighborSamplerOptions options);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_ADDRESSABLE_SAMPLER_H_
