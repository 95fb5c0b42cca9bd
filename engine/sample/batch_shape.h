#ifndef HEARTH_ENGINE_SAMPLE_BATCH_SHAPE_H_
#define HEARTH_ENGINE_SAMPLE_BATCH_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"

/// Sizes of mini-batches, measured or bounded before they are sampled, and the
/// memory that follows from them.

namespace hearth::sample {

/// Numbers of nodes at the ends of a block's edges, where edges are of several
/// types. A node counts once for each edge type of which it is a source or a
/// destination.
struct RelationEnds {
  int64_t sources = 0;
  int64_t destinations = 0;
  /// Sum over edge types of max(sources, destinations).
  int64_t larger_ends = 0;
  /// Sources and destinations of the edge type that has most of them.
  int64_t most_sources = 0;
  int64_t most_destinations = 0;

  bool operator==(const RelationEnds&) const = default;
};

/// Sizes of a mini-batch, layer by layer, or the largest sizes of several
/// mini-batches.
struct BatchShape {
  /// [layers + 1]: nodes[l] are the sources of block l, nodes[l + 1] its
  /// destinations. The first are the input nodes, the last the seeds.
  std::vector<int64_t> nodes;
  /// [layers] edges of each block.
  std::vector<int64_t> edges;
  /// [layers] ends of each block's edges; empty where edges are of one type.
  std::vector<RelationEnds> relations = {};
  /// Edges to all neighbors of a layer's destinations, of the layer with most
  /// of them, where a layer's nodes are drawn together (LayerDraw): the sampler
  /// lists them first. 0: each node draws for itself, and edges have no
  /// weights.
  int64_t listed_edges = 0;
  /// Edge types that lead to the node type with most of them; 0: nodes and
  /// edges are of one type.
  int64_t types_per_node = 0;

  int64_t num_inputs() const { return nodes.empty() ? 0 : nodes.front(); }
  int64_t num_edges() const;

  /// Memory of a MiniBatch of this shape, unused capacity of its arrays
  /// included.
  uint64_t MemoryBytes() const;

  /// Memory that a sampler keeps, the batch apart, after it has sampled a batch
  /// of this shape.
  uint64_t SamplerBytes() const;

  bool operator==(const BatchShape&) const = default;
};

BatchShape ShapeOf(const MiniBatch& batch);

/// Size of a graph, as far as the sizes of its batches depend on it.
struct GraphSize {
  int64_t num_nodes = 0;
  int64_t num_edges = 0;
  /// Edge types that lead to each node type; empty: one node type, one edge
  /// type.
  std::vector<std::vector<size_t>> edge_types_into = {};
};

/// Upper bound of the shapes of all batches of `num_seeds` seeds that are
/// sampled with `sampler` in a graph of this size.
BatchShape ShapeBound(const NeighborSamplerOptions& sampler, int64_t num_seeds,
                      const GraphSize& graph);

/// Calls `function` with each number of a shape that differs from batch to
/// batch, in an order that depends on the number of layers alone. Numbers of
/// `relations`, which a batch without edge types lacks, come last.
template <typename Shape, typename F>
void ForEachNumber(Shape& shape, const F& function) {
  for (auto& nodes : shape.nodes) function(nodes);
  for (auto& edges : shape.edges) function(edges);
  function(shape.listed_edges);
  for (auto& ends : shape.relations) {
    function(ends.sources);
    function(ends.destinations);
    function(ends.larger_ends);
    function(ends.most_sources);
    function(ends.most_destinations);
  }
}

/// Makes `shape` at least as large as `other` in every layer. An empty shape is
/// smaller than any other. REQUIRES: equal numbers of layers, or an empty
/// shape.
void Enlarge(const BatchShape& other, BatchShape& shape);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_BATCH_SHAPE_H_
