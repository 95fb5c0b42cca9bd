#include "engine/sample/batch_shape.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "engine/sample/node_table.h"

namespace hearth::sample {
namespace {

// Entries that a vector that grows by doubling may hold for each one in use.
constexpr uint64_t kGrowth = 2;

// Memory of an edge that is listed before nodes are drawn for a layer: its
// position in the block; its source, and its place among those to be read; and,
// as if each had a source of its own, that node's id, importance, rank and new
// position.
constexpr uint64_t kListedEdgeBytes =
    sizeof(int32_t) + 3 * sizeof(int64_t) +
    kGrowth * (sizeof(store::NodeId) + 2 * sizeof(double)) +
    2 * sizeof(double) + sizeof(int32_t);

void RaiseTo(const std::vector<int64_t>& other, std::vector<int64_t>& numbers) {
  numbers.resize(std::max(numbers.size(), other.size()));
  for (size_t i = 0; i < other.size(); ++i) {
    numbers[i] = std::max(numbers[i], other[i]);
  }
}

}  // namespace

int64_t BatchShape::num_edges() const {
  return std::accumulate(edges.begin(), edges.end(), int64_t{0});
}

uint64_t BatchShape::MemoryBytes() const {
  // Ids and in-degrees of the input nodes.
  uint64_t bytes = static_cast<uint64_t>(num_inputs()) *
                   (sizeof(store::NodeId) + sizeof(int64_t));
  for (size_t layer = 0; layer < edges.size(); ++layer) {
    bytes += static_cast<uint64_t>(nodes[layer + 1] + 1) * sizeof(int64_t) +
             static_cast<uint64_t>(edges[layer]) *
                 (sizeof(int32_t) + (listed_edges > 0 ? sizeof(float) : 0));
  }
  return kGrowth * bytes;
}

uint64_t BatchShape::SamplerBytes() const {
  // The positions of nodes, and where the neighbors of each begin.
  return NodeTable::MemoryBytes(num_inputs() + listed_edges) +
         kGrowth * static_cast<uint64_t>(num_inputs()) * sizeof(int64_t) +
         static_cast<uint64_t>(listed_edges) * kListedEdgeBytes;
}

BatchShape ShapeOf(const MiniBatch& batch) {
  BatchShape shape;
  for (const Block& block : batch.blocks) {
    shape.nodes.push_back(block.num_sources);
    shape.edges.push_back(static_cast<int64_t>(block.indices.size()));
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
                      int64_t num_nodes, int64_t num_edges) {
  const std::vector<int32_t>& fanouts = sampler.fanouts;
  const size_t layers = fanouts.size();
  BatchShape shape;
  shape.nodes.resize(layers + 1);
  shape.edges.resize(layers);
  shape.nodes[layers] = std::min(num_seeds, num_nodes);
  for (size_t hop = 0; hop < layers; ++hop) {
    const size_t layer = layers - 1 - hop;
    const int64_t destinations = shape.nodes[layer + 1];
    const int64_t fanout = fanouts[hop];
    // Divided, not multiplied, so that nothing can overflow.
    const bool all_edges =
        fanout < 0 || (fanout > 0 && destinations > num_edges / fanout);
    shape.edges[layer] = all_edges ? num_edges : destinations * fanout;
    int64_t more = std::min(num_nodes - destinations, shape.edges[layer]);
    if (!sampler.layer_nodes.empty()) {
      more = std::min<int64_t>(more, sampler.layer_nodes[hop]);
      shape.listed_edges = num_edges;
    }
    shape.nodes[layer] = destinations + more;
  }
  return shape;
}

void Enlarge(const BatchShape& other, BatchShape& shape) {
  RaiseTo(other.nodes, shape.nodes);
  RaiseTo(other.edges, shape.edges);
  shape.listed_edges = std::max(shape.listed_edges, other.listed_edges);
}

}  // namespace hearth::sample
