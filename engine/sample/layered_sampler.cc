#include "engine/sample/layered_sampler.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "engine/base/status_macros.h"
#include "engine/sample/history.h"
#include "engine/sample/topology_damage.h"

namespace hearth::sample {
namespace {

using store::NodeId;

// How far ahead of its use something is asked for.
constexpr size_t kNodesAhead = 16;

}  // namespace

LayeredSampler::LayeredSampler(absl::Span<const int64_t> indptr,
                               NeighborSamplerOptions options)
    : indptr_(indptr), options_(std::move(options)) {}

absl::StatusOr<MiniBatch> LayeredSampler::Sample(
    const BatchKey& key, absl::Span<const NodeId> seeds) {
  MiniBatch batch = {.key = key, .num_seeds = std::ssize(seeds)};
  HEARTH_RETURN_IF_ERROR(Start(seeds, batch));
  for (size_t layer = 0; layer < options_.fanouts.size(); ++layer) {
    HEARTH_RETURN_IF_ERROR(SampleLayer(layer, batch));
  }
  std::reverse(batch.blocks.begin(), batch.blocks.end());
  return batch;
}

absl::StatusOr<MiniBatch> LayeredSampler::SampleTop(
    const BatchKey& key, absl::Span<const NodeId> seeds) {
  MiniBatch batch = {.key = key, .num_seeds = std::ssize(seeds)};
  HEARTH_RETURN_IF_ERROR(Start(seeds, batch));
  HEARTH_RETURN_IF_ERROR(SampleLayer(0, batch));
  batch.top = {.nodes = std::exchange(batch.input_nodes, {}),
               .in_degrees = std::exchange(batch.in_degrees, {}),
               .node_types = std::exchange(batch.node_types, {})};
  return batch;
}

absl::Status LayeredSampler::SampleRest(MiniBatch& batch) {
  HEARTH_RETURN_IF_ERROR(Start(ComputedNodes(*batch.top), batch));
  for (size_t layer = 1; layer < options_.fanouts.size(); ++layer) {
    HEARTH_RETURN_IF_ERROR(SampleLayer(layer, batch));
  }
  std::reverse(batch.blocks.begin(), batch.blocks.end());
  return absl::OkStatus();
}

// Makes `nodes` the first input nodes.
absl::Status LayeredSampler::Start(absl::Span<const NodeId> nodes,
                                   MiniBatch& batch) {
  positions_.Clear();
  ForgetNodes();
  for (const NodeId node : nodes) Number(node, batch.input_nodes);
  return LookUpNewNodes(batch);
}

// Appends the block whose destinations are the input nodes so far, and its new
// sources to these.
absl::Status LayeredSampler::SampleLayer(size_t layer, MiniBatch& batch) {
  Block block = NewBlock(layer, batch);
  HEARTH_RETURN_IF_ERROR(SampleSources(layer, batch, block));
  block.num_sources = std::ssize(batch.input_nodes);
  if (!options_.layer_nodes.empty()) ThinLayer(layer, batch, block);
  batch.blocks.push_back(std::move(block));
  return LookUpNewNodes(batch);
}

// Draws the layer's nodes from all that its destinations have for neighbors.
void LayeredSampler::ThinLayer(size_t layer, MiniBatch& batch, Block& block) {
  std::vector<NodeId> nodes = std::exchange(batch.input_nodes, {});
  layer_draw_.Thin(
      {.data_seed = options_.data_seed, .batch = batch.key, .layer = layer},
      options_.layer_nodes[layer], nodes, block);
  positions_.Clear();
  for (const NodeId node : nodes) Number(node, batch.input_nodes);
}

absl::Span<const int64_t> LayeredSampler::DrawSubset(const Draw& draw,
                                                     const BatchKey& key) {
  // Node ids are below 2^48 and batches below 2^40, so that layer and node, and
  // edge type and batch, share a coordinate. A GPU draws likewise
  // (device_sampler.cc).
  RandomStream random(options_.data_seed, RandomPurpose::kNeighborSampling,
                      key.epoch_key,
                      static_cast<uint64_t>(draw.edge_type) << 40 | key.batch,
                      static_cast<uint64_t>(draw.layer) << 48 |
                          static_cast<uint64_t>(draw.node));
  return subset_.Draw(draw.degree, draw.fanout, random);
}

Block LayeredSampler::NewBlock(size_t layer, const MiniBatch& batch) const {
  const int32_t fanout = options_.fanouts[layer];
  Block block;
  block.num_destinations = std::ssize(batch.in_degrees);
  block.indptr.reserve(batch.in_degrees.size() + 1);
  block.indptr.push_back(0);
  for (const int64_t degree : batch.in_degrees) {
    const int64_t kept =
        fanout < 0 ? degree : std::min<int64_t>(degree, fanout);
    block.indptr.push_back(block.indptr.back() + kept);
  }
  block.indices.resize(block.indptr.back());
  return block;
}

absl::Status LayeredSampler::LookUpNewNodes(MiniBatch& batch) {
  const std::vector<NodeId>& nodes = batch.input_nodes;
  const auto num_nodes = static_cast<uint64_t>(indptr_.size() - 1);
  const int64_t num_edges = indptr_.back();
  for (size_t i = batch.in_degrees.size(); i < nodes.size(); ++i) {
    if (static_cast<uint64_t>(nodes[i]) >= num_nodes) {
      return NoNode(nodes[i], static_cast<int64_t>(num_nodes));
    }
    if (i + kNodesAhead < nodes.size()) {
      __builtin_prefetch(indptr_.data() + nodes[i + kNodesAhead]);
    }
    const int64_t start = indptr_[nodes[i]];
    const int64_t end = indptr_[nodes[i] + 1];
    if (start < 0 || end < start || end > num_edges) {
      return NoRow(nodes[i], start, end, num_edges);
    }
    row_starts_.push_back(start);
    batch.in_degrees.push_back(end - start);
  }
  return absl::OkStatus();
}

}  // namespace hearth::sample
