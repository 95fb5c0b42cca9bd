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

/// Neighbor sampling from topologies in memory, or mapped. Sampling from disk
/// is in stored_sampler.h, on a GPU in device_sampler.h.

namespace hearth::sample {

/// How neighbors are drawn.
struct NeighborSamplerOptions {
  /// Neighbors per node, from the seeds outward, one number per layer; -1 =
  /// all.
  std::vector<int32_t> fanouts;
  /// Seed of the random draws.
  uint64_t data_seed = 0;
  /// Nodes that are drawn together for each layer (LayerDraw), from the seeds
  /// outward; all fan-outs are -1 then. Empty: each node draws its own
  /// neighbors.
  std::vector<int32_t> layer_nodes = {};
  /// Fan-outs of edge type t, if fanouts_of[t] is not empty; other edge types
  /// use `fanouts`. Each node draws for each edge type independently.
  std::vector<std::vector<int32_t>> fanouts_of = {};
  /// Whether a node draws once, in the layer after the one that met it, as in
  /// PyG's NeighborLoader: later layers copy its edges, so that the edges of
  /// each block are the first of blocks[0], and a batch is one graph. Otherwise
  /// each layer draws anew for all nodes met so far. Not with layer_nodes.
  bool once = false;

  /// Neighbors per node by edge type `edge_type` in layer `layer`, counted from
  /// the seeds outward; -1 = all.
  int32_t Fanout(size_t layer, size_t edge_type) const {
    return edge_type < fanouts_of.size() && !fanouts_of[edge_type].empty()
               ? fanouts_of[edge_type][layer]
               : fanouts[layer];
  }
};

/// Uniform neighbor sampling without replacement (GraphSAGE, section 3.1): a
/// node with at most `fanout` in-neighbors keeps them all, otherwise it draws a
/// subset uniformly, for each edge type independently; or layer-wise sampling.
/// Draws are keyed by (data seed, epoch key, batch, layer, node, edge type), so
/// a batch does not depend on the thread that samples it.
///
/// Single-owner: it keeps scratch memory; make one per thread.
class NeighborSampler {
 public:
  virtual ~NeighborSampler() = default;

  /// Samples the mini-batch of `seeds`, which must be distinct nodes of the
  /// graph. Errors of reading, and DATA_LOSS for a damaged topology.
  virtual absl::StatusOr<MiniBatch> Sample(
      const BatchKey& key, absl::Span<const store::NodeId> seeds) = 0;

  /// First of two steps to sample a batch with a TopLayer: gives the last block
  /// alone, and MiniBatch::top with its nodes, none of them computed or pulled
  /// yet.
  virtual absl::StatusOr<MiniBatch> SampleTop(
      const BatchKey& key, absl::Span<const store::NodeId> seeds) = 0;

  /// Second step: samples all other blocks for the nodes in
  /// `batch.top->computed`, which the caller has filled in. If these are all
  /// top nodes, the blocks equal those of Sample; otherwise each remaining node
  /// has the neighbors that it has in Sample. REQUIRES: two fan-outs or more,
  /// no layer_nodes, and not `once`.
  virtual absl::Status SampleRest(MiniBatch& batch) = 0;
};

/// A sampler of arrays in memory or mapped, which must outlive it. DATA_LOSS
/// where an index points out of the topology: its arrays are damaged.
std::unique_ptr<NeighborSampler> NewNeighborSampler(
    const store::Topology& topology, NeighborSamplerOptions options);

/// A sampler of a heterograph: each node draws, of each edge type that leads to
/// its type, as many neighbors as the edge type's fan-out. Nodes of all types
/// share one numbering, so that a batch has one list of input nodes and one
/// block per layer, with types in MiniBatch::node_types and Block::edge_types.
/// `relations`, one for each edge type, and the arrays they view must outlive
/// the sampler. DATA_LOSS where an index points out of the graph. REQUIRES: no
/// layer_nodes.
std::unique_ptr<NeighborSampler> NewTypedSampler(
    absl::Span<const store::Relation> relations, const store::NodeSpace& nodes,
    NeighborSamplerOptions options);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_NEIGHBOR_SAMPLER_H_
