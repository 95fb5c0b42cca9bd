#include "engine/sample/batch_shape.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "engine/sample/node_table.h"

namespace hearth::sample {
namespace {

// Entries that a vector that grows by doubling may hold for each one in use.
constexpr uint64_t kGrowth = 2;

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
             static_cast<uint64_t>(edges[layer]) * sizeof(int32_t);
  }
  return kGrowth * bytes;
}

uint64_t BatchShape::SamplerBytes() const {
  // The positions of nodes, and where the neighbors of each begin.
  return NodeTable::MemoryBytes(num_inputs()) +
         kGrowth * static_cast<uint64_t>(num_inputs()) * sizeof(int64_t);
}

BatchShape ShapeOf(const MiniBatch& batch) {
  BatchShape shape;
  for (const Block& block : batch.blocks) {
    shape.nodes.push_back(block.num_sources);
    shape.edges.push_back(static_cast<int64_t>(block.indices.size()));
  }
  shape.nodes.push_back(batch.num_seeds);
  return shape;
}

BatchShape ShapeBound(absl::Span<const int32_t> fanouts, int64_t num_seeds,
                      int64_t num_nodes, int64_t num_edges) {
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
    const int64_t room = num_nodes - destinations;
    shape.nodes[layer] = destinations + std::min(room, shape.edges[layer]);
  }
  return shape;
}

void Enlarge(const BatchShape& other, BatchShape& shape) {
  RaiseTo(other.nodes, shape.nodes);
  RaiseTo(other.edges, shape.edges);
}

}  // namespace hearth::sample
