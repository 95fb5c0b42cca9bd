#include "engine/model/pruned_batch.h"

#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace hearth::model {
namespace {

// The top nodes of `whole`, those of the last block's sources.
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

// The edges of `block` to `destinations`, whose sources are numbered anew.
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

// `whole` with its input nodes in another order; blocks stay as they are.
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
  // Computed nodes come first, then all others.
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

}  // namespace hearth::model
