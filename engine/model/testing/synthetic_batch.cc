#include "engine/model/testing/synthetic_batch.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "engine/base/byte_size.h"
#include "engine/base/random.h"
#include "engine/io/aligned_memory.h"

namespace hearth::model {

namespace {

// New sources appear in turn among repeated ones, as sampling meets them.
sample::Block MakeBlock(int64_t sources, int64_t destinations,
                        int64_t max_neighbors, RandomStream& random) {
  sample::Block block;
  block.num_sources = sources;
  block.num_destinations = destinations;
  block.indptr = {0};
  int64_t next = destinations;
  for (int64_t row = 0; row < destinations; ++row) {
    const uint64_t count = random.Below(max_neighbors + 1);
    for (uint64_t i = 0; i < count; ++i) {
      const bool fresh = next < sources && random.Below(4) != 0;
      block.indices.push_back(static_cast<int32_t>(
          fresh ? next++ : static_cast<int64_t>(random.Below(sources))));
    }
    block.indptr.push_back(static_cast<int64_t>(block.indices.size()));
  }
  return block;
}

store::Labels MakeLabels(const SyntheticShape& shape, RandomStream& random) {
  const int64_t rows = shape.nodes.front();
  const int64_t width = shape.label_width;
  std::vector<int32_t> classes;
  std::vector<float> targets;
  const int64_t row_bytes = store::MultiLabelRowBytes(width);
  std::vector<uint8_t> bits(static_cast<size_t>(rows * row_bytes));
  for (int64_t row = 0; row < rows; ++row) {
    switch (shape.label_kind) {
      case store::LabelKind::kClasses:
        classes.push_back(static_cast<int32_t>(random.Below(width)));
        break;
      case store::LabelKind::kMultiLabel:
        for (int64_t bit = 0; bit <= width; ++bit) {
          const bool set = bit == width || random.Below(3) == 0;
          bits[static_cast<size_t>(row * row_bytes + bit / 8)] |=
              static_cast<uint8_t>(set << (bit % 8));
        }
        break;
      case store::LabelKind::kTargets:
        for (int64_t i = 0; i < width; ++i) {
          targets.push_back(2 * random.UniformFloat() - 1);
        }
    }
  }
  switch (shape.label_kind) {
    case store::LabelKind::kClasses:
      return store::Labels::Classes(std::move(classes), width);
    case store::LabelKind::kMultiLabel:
      return store::Labels::MultiLabel(std::move(bits), rows, width);
    case store::LabelKind::kTargets:
      return store::Labels::Targets(std::move(targets), rows, width);
  }
  return {};
}

}  // namespace

train::BatchView SyntheticBatch::View() const {
  return {.sample = sample,
          .inputs = inputs.get(),
          .feature_dim = feature_dim,
          .labels = labels.view()};
}

PlacedBatch::PlacedBatch(const SyntheticBatch& batch, store::DType dtype)
    : batch(batch), format({.dim = batch.feature_dim, .dtype = dtype}) {
  const size_t rows = batch.sample.input_nodes.size();
  num_slots = static_cast<uint32_t>(rows + rows / 8);
  addresses.resize(rows);
  // Two in three are in slots, those of the cache's rows that others have left
  // between them.
  uint32_t num_landed = 0;
  for (size_t row = 0; row < rows; ++row) {
    addresses[row] = row % 3 == 0 ? num_slots + num_landed++
                                  : static_cast<uint32_t>(num_slots - 1 - row);
  }
  RandomStream random(1, RandomPurpose::kGenerator);
  for (size_t row = rows; row > 1; --row) {
    std::swap(addresses[row - 1], addresses[random.Below(row)]);
  }
  const auto row_bytes = static_cast<size_t>(format.row_bytes());
  slots = *io::AlignedMemory::Allocate(num_slots * row_bytes);
  landed = *io::AlignedMemory::Allocate(num_landed * row_bytes);
  for (size_t row = 0; row < rows; ++row) {
    const uint32_t address = addresses[row];
    std::byte* const to =
        address < num_slots
            ? slots.bytes().data() + address * row_bytes
            : landed.bytes().data() + (address - num_slots) * row_bytes;
    const float* const from = batch.inputs.get() + row * format.dim;
    if (dtype == store::DType::kFloat32) {
      std::memcpy(to, from, row_bytes);
      continue;
    }
    for (int64_t column = 0; column < format.dim; ++column) {
      const auto upper =
          static_cast<uint16_t>(std::bit_cast<uint32_t>(from[column]) >> 16);
      std::memcpy(to + 2 * column, &upper, sizeof(upper));
    }
  }
}

train::BatchView PlacedBatch::View() const {
  train::BatchView view = batch.View();
  view.inputs = nullptr;
  view.rows = {.slots = slots.bytes().data(),
               .landed = landed.bytes().data(),
               .num_slots = num_slots,
               .format = format,
               .addresses = addresses.data()};
  return view;
}

SyntheticBatch MakeBatch(const SyntheticShape& shape) {
  RandomStream random(shape.seed, RandomPurpose::kGenerator);
  SyntheticBatch batch;
  batch.feature_dim = shape.feature_dim;
  batch.sample.num_seeds = shape.nodes.front();
  const int64_t num_inputs = shape.nodes.back();
  for (int64_t node = 0; node < num_inputs; ++node) {
    batch.sample.input_nodes.push_back(node);
    batch.sample.in_degrees.push_back(shape.max_neighbors +
                                      static_cast<int64_t>(random.Below(4)));
  }
  for (size_t hop = shape.nodes.size() - 1; hop > 0; --hop) {
    batch.sample.blocks.push_back(MakeBlock(
        shape.nodes[hop], shape.nodes[hop - 1], shape.max_neighbors, random));
  }
  const int64_t count = num_inputs * shape.feature_dim;
  // Large arrays are in huge pages, as a job's rows are.
  constexpr uint64_t kHugePage = io::AlignedMemory::kHugePageBytes;
  const uint64_t alignment = count * sizeof(float) < kHugePage ? 64 : kHugePage;
  const uint64_t bytes = RoundUp(count * sizeof(float), alignment);
  batch.inputs.reset(static_cast<float*>(aligned_alloc(alignment, bytes)));
  if (alignment == kHugePage) {
    ::madvise(batch.inputs.get(), bytes, MADV_HUGEPAGE);
  }
  for (int64_t i = 0; i < count; ++i) {
    batch.inputs[i] = 2 * random.UniformFloat() - 1;
  }
  batch.labels = MakeLabels(shape, random);
  return batch;
}

namespace {

// Top layer with the sources of the last block of `whole` as nodes.
sample::TopLayer TopOf(const sample::MiniBatch& whole,
                       const std::vector<int32_t>& pulled) {
  const int64_t count = whole.blocks[1].num_sources;
  sample::TopLayer top;
  top.nodes.assign(whole.input_nodes.begin(),
                   whole.input_nodes.begin() + count);
  top.in_degrees.assign(whole.in_degrees.begin(),
                        whole.in_degrees.begin() + count);
  if (!whole.node_types.empty()) {
    top.node_types.assign(whole.node_types.begin(),
                          whole.node_types.begin() + count);
  }
  top.pulled = pulled;
  for (int32_t node = 0; node < count; ++node) {
    if (!std::binary_search(pulled.begin(), pulled.end(), node)) {
      top.computed.push_back(node);
    }
  }
  top.pushed = top.computed;
  return top;
}

// Edges of `block` that lead to `destinations`, with renumbered sources.
sample::Block EdgesTo(const sample::Block& block,
                      const std::vector<int32_t>& destinations,
                      const std::vector<int32_t>& position) {
  sample::Block result;
  result.num_sources = block.num_sources;
  result.num_destinations = std::ssize(destinations);
  result.indptr = {0};
  for (const int32_t node : destinations) {
    for (int64_t e = block.indptr[node]; e < block.indptr[node + 1]; ++e) {
      result.indices.push_back(position[block.indices[e]]);
      if (!block.edge_types.empty()) {
        result.edge_types.push_back(block.edge_types[e]);
      }
    }
    result.indptr.push_back(std::ssize(result.indices));
  }
  return result;
}

// `whole` with its input nodes in another order; blocks are unchanged.
SyntheticBatch Reordered(const SyntheticBatch& whole,
                         const std::vector<int32_t>& order) {
  const sample::MiniBatch& from = whole.sample;
  SyntheticBatch result;
  result.sample = from;
  result.feature_dim = whole.feature_dim;
  result.labels = whole.labels;
  const size_t bytes =
      order.size() * static_cast<size_t>(whole.feature_dim) * sizeof(float);
  result.inputs.reset(
      static_cast<float*>(aligned_alloc(64, (bytes / 64 + 1) * 64)));
  float* row = result.inputs.get();
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t node = order[i];
    result.sample.input_nodes[i] = from.input_nodes[node];
    result.sample.in_degrees[i] = from.in_degrees[node];
    if (!from.node_types.empty()) {
      result.sample.node_types[i] = from.node_types[node];
    }
    row = std::copy_n(whole.inputs.get() + node * whole.feature_dim,
                      whole.feature_dim, row);
  }
  return result;
}

}  // namespace

train::BatchView PrunedBatch::View() {
  train::BatchView view = batch.View();
  view.top_rows = {
      .width = width, .pulled = pulled.data(), .pushed = pushed.data()};
  return view;
}

PrunedBatch Prune(const SyntheticBatch& whole,
                  const std::vector<int32_t>& pulled,
                  const std::vector<float>& embeddings, int64_t width) {
  sample::TopLayer top = TopOf(whole.sample, pulled);
  // Computed nodes first, then all others.
  std::vector<int32_t> order = top.computed;
  order.insert(order.end(), pulled.begin(), pulled.end());
  for (auto node = static_cast<int32_t>(top.nodes.size());
       node < std::ssize(whole.sample.input_nodes); ++node) {
    order.push_back(node);
  }
  std::vector<int32_t> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    position[order[i]] = static_cast<int32_t>(i);
  }
  PrunedBatch result = {.batch = Reordered(whole, order), .width = width};
  result.batch.sample.blocks[0] =
      EdgesTo(whole.sample.blocks[0], top.computed, position);
  for (const int32_t node : pulled) {
    result.pulled.insert(result.pulled.end(), embeddings.begin() + node * width,
                         embeddings.begin() + (node + 1) * width);
  }
  result.pushed.resize(top.pushed.size() * static_cast<size_t>(width));
  result.batch.sample.top = std::move(top);
  return result;
}

PrunedBatch WithTopLayer(const SyntheticBatch& whole, int64_t width) {
  return Prune(whole, {}, {}, width);
}

namespace {

// Nodes met by a batch, in the order of meeting.
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

// In-edges of each node, by type.
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

// The block whose destinations are all nodes met so far.
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
