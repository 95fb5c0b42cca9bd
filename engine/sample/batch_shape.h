#ifndef HEARTH_ENGINE_SAMPLE_BATCH_SHAPE_H_
#define HEARTH_ENGINE_SAMPLE_BATCH_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"

namespace hearth::sample {

/// The nodes at the ends of a block's edges, for edges of several types: a node
/// counts once for each edge type that it is a source, or a destination, of.
struct RelationEnds {
  int64_t sources = 0;
  int64_t destinations = 0;
  /// Sources or destinations of each edge type, whichever are more, added up.
  int64_t larger_ends = 0;
  /// Those of the edge type that has most.
  int64_t most_sources = 0;
  int64_t most_destinations = 0;

  bool operator==(const RelationEnds&) const = default;
};

/// How large a mini-batch is, layer by layer, or how large several are at most.
struct BatchShape {
  /// [layers + 1]: nodes[l] are the sources of block l, nodes[l + 1] its
  /// destinations. The first are the input nodes, the last the seeds.
  std::vector<int64_t> nodes;
  /// [layers]: those of each block.
  std::vector<int64_t> edges;
  /// [layers], or empty: edges are of one type.
  std::vector<RelationEnds> relations = {};
  /// Where nodes are drawn layer by layer: the edges of all neighbors of a
  /// layer's destinations, which the sampler lists first, of the layer that has
  /// most. 0: nodes draw for themselves, and edges have no weights.
  int64_t listed_edges = 0;
  /// Edge types that lead to the node type that has most of them; 0: nodes and
  /// edges are of one type.
  int64_t types_per_node = 0;

  int64_t num_inputs() const { return nodes.empty() ? 0 : nodes.front(); }
  int64_t num_edges() const;

  /// Memory of a MiniBatch of this shape, with the room that its arrays may
  /// have grown beyond their contents.
  uint64_t MemoryBytes() const;

  /// Memory that a sampler keeps, beside the batch, once it has sampled one of
  /// this shape.
  uint64_t SamplerBytes() const;

  bool operator==(const BatchShape&) const = default;
};

BatchShape ShapeOf(const MiniBatch& batch);

/// The size of a graph, as far as that of its batches depends on it.
struct GraphSize {
  int64_t num_nodes = 0;
  int64_t num_edges = 0;
  /// By node type: the edge types that lead to it. Empty: there is one of each.
  std::vector<std::vector<size_t>> edge_types_into = {};
};

/// No batch of so many seeds that is sampled like this is larger, in a graph of
/// this size.
BatchShape ShapeBound(const NeighborSamplerOptions& sampler, int64_t num_seeds,
                      const GraphSize& graph);

/// Calls `function` with each number of a shape that differs from batch to
/// batch: always in the same order for equal numbers of layers, those of
/// `relations`, which a batch without edges lacks, last.
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

/// Makes `shape` at least as large as `other` in every layer. An empty one is
/// smaller than any other. REQUIRES: as many layers, or none.
void Enlarge(const BatchShape& other, BatchShape& shape);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_BATCH_SHAPE_H_
