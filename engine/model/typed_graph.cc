#include "engine/model/typed_graph.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "engine/base/random.h"

namespace hearth::model {
namespace {

// The nodes that a batch has met, in the order in which it met them.
class Positions {
 public:
  Positions(size_t num_nodes, const std::vector<int32_t>& seeds)
      : position_(num_nodes, -1) {
    for (const int32_t seed : seeds) Of(seed);
  }

  int32_t Of(int32_t node) {
    if (position_[node] < 0) {
      position_[node] = static_cast<int32_t>(nodes_.size());
      nodes_.push_back(node);
    }
    return position_[node];
  }

  const std::vector<int32_t>& nodes() const { return nodes_; }

 private:
  std::vector<int32_t> position_;
  std::vector<int32_t> nodes_;
};

// By node, the edges that lead to it, by their types.
std::vector<std::vector<TypedEdge>> InEdges(const TypedGraph& graph) {
  std::vector<std::vector<TypedEdge>> in(graph.node_types.size());
  for (const TypedEdge& edge : graph.edges) {
    in[edge.destination].push_back(edge);
  }
  for (std::vector<TypedEdge>& edges : in) {
    std::stable_sort(
        edges.begin(), edges.end(),
        [](const TypedEdge& a, const TypedEdge& b) { return a.type < b.type; });
  }
  return in;
}

// The block to all nodes that were met so far.
sample::Block NextBlock(const std::vector<std::vector<TypedEdge>>& in,
                        Positions& positions) {
  sample::Block block;
  block.num_destinations = std::ssize(positions.nodes());
  block.indptr = {0};
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    for (const TypedEdge& edge : in[positions.nodes()[row]]) {
      block.indices.push_back(positions.Of(edge.source));
      block.edge_types.push_back(edge.type);
    }
    block.indptr.push_back(std::ssize(block.indices));
  }
  block.num_sources = std::ssize(positions.nodes());
  return block;
}

}  // namespace

TypedGraph MakeTypedGraph(const train::ModelShape& shape, int32_t num_nodes,
                          int64_t num_edges, uint64_t seed) {
  RandomStream random(seed, RandomPurpose::kGenerator);
  TypedGraph graph = {.shape = shape};
  const size_t num_types = shape.node_types.size();
  for (int32_t node = 0; node < num_nodes; ++node) {
    const size_t type = static_cast<size_t>(node) % num_types;
    graph.node_types.push_back(static_cast<store::TypeId>(type));
    std::vector<float>& row = graph.features.emplace_back();
    for (int64_t i = 0; i < shape.node_types[type].feature_dim; ++i) {
      row.push_back(2 * random.UniformFloat() - 1);
    }
    graph.labels.push_back(static_cast<int32_t>(
        random.Below(static_cast<uint64_t>(shape.label_width))));
  }
  const auto draw = [&](size_t type) {
    const auto turns = static_cast<uint64_t>(num_nodes) / num_types;
    return static_cast<int32_t>(random.Below(turns) * num_types + type);
  };
  for (size_t type = 0; type < shape.edge_types.size(); ++type) {
    for (int64_t i = 0; i < num_edges; ++i) {
      const int32_t source = draw(shape.edge_types[type].source);
      const int32_t destination = draw(shape.edge_types[type].destination);
      graph.edges.push_back(
          {source, destination, static_cast<store::TypeId>(type)});
    }
  }
  return graph;
}

SyntheticBatch WholeNeighborhood(const TypedGraph& graph,
                                 const std::vector<int32_t>& seeds) {
  const std::vector<std::vector<TypedEdge>> in = InEdges(graph);
  Positions positions(graph.node_types.size(), seeds);
  SyntheticBatch batch;
  batch.sample.num_seeds = std::ssize(seeds);
  for (int64_t layer = 0; layer < graph.shape.num_layers; ++layer) {
    batch.sample.blocks.push_back(NextBlock(in, positions));
  }
  std::reverse(batch.sample.blocks.begin(), batch.sample.blocks.end());
  batch.feature_dim = graph.shape.feature_dim;
  const size_t count =
      positions.nodes().size() * static_cast<size_t>(batch.feature_dim);
  batch.inputs.reset(static_cast<float*>(
      aligned_alloc(64, (count * sizeof(float) / 64 + 1) * 64)));
  std::fill_n(batch.inputs.get(), count,
              std::numeric_limits<float>::quiet_NaN());
  float* row = batch.inputs.get();
  for (const int32_t node : positions.nodes()) {
    batch.sample.input_nodes.push_back(node);
    batch.sample.in_degrees.push_back(std::ssize(in[node]));
    batch.sample.node_types.push_back(graph.node_types[node]);
    std::copy(graph.features[node].begin(), graph.features[node].end(), row);
    row += batch.feature_dim;
  }
  std::vector<int32_t> labels;
  for (const int32_t seed : seeds) labels.push_back(graph.labels[seed]);
  batch.labels =
      store::Labels::Classes(std::move(labels), graph.shape.label_width);
  return batch;
}

std::vector<int32_t> TargetNodes(const TypedGraph& graph) {
  std::vector<int32_t> nodes;
  for (size_t node = 0; node < graph.node_types.size(); ++node) {
    if (graph.node_types[node] == graph.shape.target_type) {
      nodes.push_back(static_cast<int32_t>(node));
    }
  }
  return nodes;
}

}  // namespace hearth::model
