#include "engine/sample/batch_shape.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>

#include "engine/sample/layered_sampler.h"

namespace hearth::sample {
namespace {

// Capacity of a vector that grows by doubling, per element in use, at most.
constexpr uint64_t kGrowth = 2;

// Memory of an edge that is listed before a layer's nodes are drawn together:
// its position in the block; its source, and the place of that among the
// sources to read; and, as if each edge had a source of its own, the source's
// id, importance, rank and new position.
constexpr uint64_t kListedEdgeBytes =
    sizeof(int32_t) + 3 * sizeof(int64_t) +
    kGrowth * (sizeof(store::NodeId) + 2 * sizeof(double)) +
    2 * sizeof(double) + sizeof(int32_t);

// Memory of one neighbor list of a node: its edge type, start and length.
constexpr uint64_t kListBytes = sizeof(void*) + 2 * sizeof(int64_t);

// Upper bound of the neighbors that a node draws in layer `hop`, over all edge
// types; -1: all.
int32_t MostDrawn(const NeighborSamplerOptions& sampler, size_t hop,
                  const GraphSize& graph) {
  if (graph.edge_types_into.empty()) return sampler.fanouts[hop];
  int64_t most = 0;
  for (const std::vector<size_t>& edge_types : graph.edge_types_into) {
    int64_t drawn = 0;
    for (const size_t type : edge_types) {
      const int32_t fanout = sampler.Fanout(hop, type);
      if (fanout < 0) return -1;
      drawn += fanout;
    }
    most = std::max(most, drawn);
  }
  return static_cast<int32_t>(std::min<int64_t>(most, INT32_MAX));
}

// Counts the ends of a block's edges.
RelationEnds CountEnds(const Block& block) {
  std::vector<store::TypeId> types = block.edge_types;
  types.resize(block.indices.size());
  const size_t num_types =
      types.empty() ? 0
                    : size_t{1} + *std::max_element(types.begin(), types.end());
  // Sources, grouped by edge type: type t begins at `begins[t]`.
  std::vector<size_t> begins(num_types + 1);
  for (const store::TypeId type : types) ++begins[type + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<int32_t> sources(block.indices.size());
  std::vector<int64_t> destinations(num_types);
  std::vector<size_t> next(begins.begin(), begins.end() - 1);
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
         ++edge) {
      const store::TypeId type = types[edge];
      sources[next[type]++] = block.indices[edge];
      const bool is_first =
          edge == block.indptr[row] || types[edge - 1] != type;
      destinations[type] += is_first ? 1 : 0;
    }
  }
  RelationEnds ends;
  std::vector<size_t> last_type(static_cast<size_t>(block.num_sources),
                                num_types);
  for (size_t type = 0; type < num_types; ++type) {
    int64_t distinct = 0;
    for (size_t i = begins[type]; i < begins[type + 1]; ++i) {
      size_t& last = last_type[static_cast<size_t>(sources[i])];
      distinct += last != type ? 1 : 0;
      last = type;
    }
    ends.sources += distinct;
    ends.destinations += destinations[type];
    ends.larger_ends += std::max(distinct, destinations[type]);
    ends.most_sources = std::max(ends.most_sources, distinct);
    ends.most_destinations =
        std::max(ends.most_destinations, destinations[type]);
  }
  return ends;
}

bool HasTypes(const MiniBatch& batch) {
  return !batch.node_types.empty() ||
         std::any_of(
             batch.blocks.begin(), batch.blocks.end(),
             [](const Block& block) { return !block.edge_types.empty(); });
}

}  // namespace

int64_t BatchShape::num_edges() const {
  return std::accumulate(edges.begin(), edges.end(), int64_t{0});
}

uint64_t BatchShape::MemoryBytes() const {
  const uint64_t type_bytes = types_per_node > 0 ? sizeof(store::TypeId) : 0;
  // Ids, in-degrees and types of the input nodes grow layer by layer.
  uint64_t bytes = kGrowth * static_cast<uint64_t>(num_inputs()) *
                   (sizeof(store::NodeId) + sizeof(int64_t) + type_bytes);
  for (size_t layer = 0; layer < edges.size(); ++layer) {
    bytes += static_cast<uint64_t>(nodes[layer + 1] + 1) * sizeof(int64_t);
    // Capacity for all drawn edges is reserved at once; the remaining edges of
    // a thinned layer are appended one by one.
    const auto of_layer = static_cast<uint64_t>(edges[layer]);
    bytes += listed_edges > 0
                 ? kGrowth * of_layer * (sizeof(int32_t) + sizeof(float))
                 : of_layer * (sizeof(int32_t) + type_bytes);
  }
  return bytes;
}

uint64_t BatchShape::SamplerBytes() const {
  // Positions of nodes, and the start of each node's neighbors.
  return NodeTable::MemoryBytes(num_inputs() + listed_edges) +
         kGrowth * static_cast<uint64_t>(num_inputs()) *
             (sizeof(int64_t) +
              static_cast<uint64_t>(types_per_node) * kListBytes) +
         static_cast<uint64_t>(listed_edges) * kListedEdgeBytes;
}

BatchShape ShapeOf(const MiniBatch& batch) {
  BatchShape shape;
  for (const Block& block : batch.blocks) {
    shape.nodes.push_back(block.num_sources);
    shape.edges.push_back(static_cast<int64_t>(block.indices.size()));
    if (HasTypes(batch)) {
      shape.relations.push_back(CountEnds(block));
    }
    if (block.weights.empty()) continue;
    const auto degrees = batch.in_degrees.begin();
    shape.listed_edges = std::max(
        shape.listed_edges,
        std::accumulate(degrees, degrees + block.num_destinations, int64_t{0}));
  }
  shape.nodes.push_back(batch.num_seeds);
  return shape;
}

BatchShape ShapeBound(const NeighborSamplerOptions& sampler, int64_t num_seeds,
                      const GraphSize& graph) {
  const int64_t num_nodes = graph.num_nodes;
  const int64_t num_edges = graph.num_edges;
  const size_t layers = sampler.fanouts.size();
  BatchShape shape;
  for (const std::vector<size_t>& edge_types : graph.edge_types_into) {
    shape.types_per_node =
        std::max(shape.types_per_node, std::ssize(edge_types));
  }
  shape.nodes.resize(layers + 1);
  shape.edges.resize(layers);
  if (!graph.edge_types_into.empty()) shape.relations.resize(layers);
  shape.nodes[layers] = std::min(num_seeds, num_nodes);
  // Nodes that the layer draws for, and edges that it has from the one before.
  int64_t drawing = shape.nodes[layers];
  int64_t kept = 0;
  for (size_t hop = 0; hop < layers; ++hop) {
    const size_t layer = layers - 1 - hop;
    const int64_t destinations = shape.nodes[layer + 1];
    if (!sampler.once) drawing = destinations;
    const int64_t fanout = MostDrawn(sampler, hop, graph);
    // Division instead of multiplication, so that nothing can overflow.
    const bool all_edges =
        fanout < 0 || (fanout > 0 && drawing > num_edges / fanout);
    const int64_t drawn = all_edges ? num_edges : drawing * fanout;
    shape.edges[layer] = std::min(num_edges, kept + drawn);
    if (sampler.once) {
      // A batch with fewer nodes so far than the bound may meet more new ones
      // than the bound adds.
      drawing = std::min(num_nodes, drawn);
      kept = shape.edges[layer];
    }
    int64_t more = std::min(num_nodes - destinations, drawn);
    if (!sampler.layer_nodes.empty()) {
      more = std::min<int64_t>(more, sampler.layer_nodes[hop]);
      shape.listed_edges = num_edges;
    }
    shape.nodes[layer] = destinations + more;
    if (graph.edge_types_into.empty()) continue;
    const int64_t edges = shape.edges[layer];
    const int64_t into = shape.types_per_node;
    shape.relations[layer] = {
        .sources = edges,
        .destinations = into > 0 && destinations > edges / into
                            ? edges
                            : destinations * into,
        .larger_ends = edges,
        .most_sources = std::min(edges, shape.nodes[layer]),
        .most_destinations = std::min(edges, destinations)};
  }
  return shape;
}

void Enlarge(const BatchShape& other, BatchShape& shape) {
  shape.nodes.resize(std::max(shape.nodes.size(), other.nodes.size()));
  shape.edges.resize(std::max(shape.edges.size(), other.edges.size()));
  shape.relations.resize(
      std::max(shape.relations.size(), other.relations.size()));
  if (!other.nodes.empty()) {
    BatchShape more = other;
    more.relations.resize(shape.relations.size());
    std::vector<int64_t> numbers;
    ForEachNumber(more, [&](int64_t number) { numbers.push_back(number); });
    size_t i = 0;
    ForEachNumber(shape, [&](int64_t& number) {
      number = std::max(number, numbers[i++]);
    });
  }
  shape.types_per_node = std::max(shape.types_per_node, other.types_per_node);
}

}  // namespace hearth::sample
