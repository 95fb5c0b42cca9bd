#ifndef HEARTH_ENGINE_SAMPLE_NEIGHBOR_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_NEIGHBOR_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// How neighbors are drawn.
struct NeighborSamplerOptions {
  /// Neighbors per node, from the seeds outward; -1 = all. One per layer.
  std::vector<int32_t> fanouts;
  /// Seeds the draws.
  uint64_t data_seed = 0;
  /// Nodes that are drawn for a layer as a whole, from the seeds outward
  /// (layer_draw.h), one per layer; each fan-out is -1 then. Empty: each node
  /// draws for itself.
  std::vector<int32_t> layer_nodes = {};
  /// The same as `fanouts` for edge type t, where fanouts_of[t] is not empty.
  /// Each other edge type has `fanouts`: neighbors are drawn for each edge type
  /// of a node by itself.
  std::vector<std::vector<int32_t>> fanouts_of = {};

  /// Neighbors per node and edge of type `edge_type`, in layer `layer`, counted
  /// from the seeds outward; -1 = all.
  int32_t Fanout(size_t layer, size_t edge_type) const {
    return edge_type < fanouts_of.size() && !fanouts_of[edge_type].empty()
               ? fanouts_of[edge_type][layer]
               : fanouts[layer];
  }
};

/// Uniform neighbor sampling without replacement (GraphSAGE, section 3.1): a
/// node with at most `fanout` in-neighbors keeps them all, otherwise a subset
/// drawn uniformly, of each edge type by itself; or layer-wise sampling. Draws
/// are keyed by (data seed, epoch key, batch, layer, node, edge type), so a
/// batch is the same whichever thread samples it.
///
/// Single-owner: it keeps scratch memory; make one per thread.
class NeighborSampler {
 public:
  virtual ~NeighborSampler() = default;

  /// The mini-batch of `seeds`, which must be distinct nodes of the graph.
  /// Fails only where neighbors must be read from a file.
  virtual absl::StatusOr<MiniBatch> Sample(
      const BatchKey& key, absl::Span<const store::NodeId> seeds) = 0;

  /// The same in two steps, for batches with a TopLayer. The first gives the
  /// last block alone and MiniBatch::top with its nodes, none of which is
  /// computed or pulled yet.
  virtual absl::StatusOr<MiniBatch> SampleTop(
      const BatchKey& key, absl::Span<const store::NodeId> seeds) = 0;

  /// The second step: samples all other blocks for the nodes that
  /// `batch.top->computed` has been given meanwhile. If these are all, the
  /// blocks are those of Sample; if not, each node that is still there has the
  /// neighbors that it would have had. REQUIRES: two fan-outs or more, and no
  /// layer_nodes.
  virtual absl::Status SampleRest(MiniBatch& batch) = 0;
};

/// Samples from arrays that can be reached by pointer, in memory or mapped;
/// they must outlive the sampler. DATA_LOSS where the topology leads out of
/// itself: its arrays were damaged.
std::unique_ptr<NeighborSampler> NewNeighborSampler(
    const store::Topology& topology, NeighborSamplerOptions options);

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

#endif  // HEARTH_ENGINE_SAMPLE_NEIGHBOR_SAMPLER_H_
