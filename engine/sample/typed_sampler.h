#ifndef HEARTH_ENGINE_SAMPLE_TYPED_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_TYPED_SAMPLER_H_

#include <memory>

#include "absl/types/span.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/node_space.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// Samples a heterograph: of each node, neighbors of each edge type that leads
/// to nodes of its type, as many as that type's fan-out says. Nodes of all
/// types share one numbering, so that a batch has one list of input nodes and
/// one block a layer; MiniBatch::node_types and Block::edge_types tell which is
/// which. `relations`, one for each edge type, and what they view must outlive
/// the sampler. DATA_LOSS where they lead out of the graph. REQUIRES: no
/// layer_nodes.
std::unique_ptr<NeighborSampler> NewTypedSampler(
    absl::Span<const store::Relation> relations, const store::NodeSpace& nodes,
    NeighborSamplerOptions options);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_TYPED_SAMPLER_H_
