#include "engine/sample/neighbor_sampler.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "engine/base/random.h"
#include "engine/sample/node_table.h"
#include "engine/sample/subset.h"

// A layer is sampled in three steps:
//
//  1. The nodes that the layer before has added are looked up in the topology:
//     where their rows start and how long they are. So the number of edges is
//     known before the first is drawn.
//  2. The sources of the edges of a chunk of destinations are drawn.
//  3. The chunk's sources are numbered in the order in which they were met.
//
// Every access goes to a random place in a large array, so each step asks the
// processor for what a later turn of itself, or the next step, will touch.

namespace hearth::sample {
namespace {

using store::NodeId;

// Destinations per chunk: their sources' table slots should stay in the L2
// cache between steps 2 and 3.
constexpr int64_t kChunk = 64;
// How far ahead of its use something is asked for.
constexpr int64_t kNodesAhead = 16;
constexpr int64_t kRowsAhead = 8;

class UniformNeighborSampler final : public NeighborSampler {
 public:
  UniformNeighborSampler(const store::Topology& topology,
                         NeighborSamplerOptions options)
      : topology_(topology), options_(std::move(options)) {}

  MiniBatch Sample(const BatchKey& key,
                   absl::Span<const NodeId> seeds) override {
    MiniBatch batch;
    batch.key = key;
    batch.num_seeds = static_cast<int64_t>(seeds.size());
    positions_.Clear();
    row_starts_.clear();
    for (const NodeId seed : seeds) Number(seed, batch.input_nodes);
    LookUpNewNodes(batch);
    for (size_t layer = 0; layer < options_.fanouts.size(); ++layer) {
      batch.blocks.push_back(std::visit(
          [&](const auto indices) {
            return SampleLayer(indices, layer, batch);
          },
          topology_.indices));
      LookUpNewNodes(batch);
    }
    std::reverse(batch.blocks.begin(), batch.blocks.end());
    return batch;
  }

 private:
  // Step 1: extends the in-degrees and row_starts_ to all input nodes.
  void LookUpNewNodes(MiniBatch& batch) {
    const std::vector<NodeId>& nodes = batch.input_nodes;
    for (size_t i = batch.in_degrees.size(); i < nodes.size(); ++i) {
      if (i + kNodesAhead < nodes.size()) {
        __builtin_prefetch(&topology_.indptr[nodes[i + kNodesAhead]]);
      }
      row_starts_.push_back(topology_.indptr[nodes[i]]);
      batch.in_degrees.push_back(topology_.InDegree(nodes[i]));
    }
  }

  // The block whose destinations are the batch's input nodes so far; adds its
  // new sources to them.
  template <typename Index>
  Block SampleLayer(absl::Span<const Index> indices, size_t layer,
                    MiniBatch& batch) {
    Block block = WithoutSources(options_.fanouts[layer], batch.in_degrees);
    auto edge = block.indices.begin();
    for (int64_t begin = 0; begin < block.num_destinations; begin += kChunk) {
      const int64_t end = std::min(begin + kChunk, block.num_destinations);
      picked_.clear();
      for (int64_t row = begin; row < end; ++row) {
        if (row + kRowsAhead < block.num_destinations) {
          __builtin_prefetch(indices.data() + row_starts_[row + kRowsAhead]);
        }
        PickNeighbors(indices, layer, batch, row);
      }
      for (const NodeId node : picked_) {
        *edge++ = Number(node, batch.input_nodes);
      }
    }
    block.num_sources = static_cast<int64_t>(batch.input_nodes.size());
    return block;
  }

  // A block for destinations of these in-degrees, with room for its edges.
  static Block WithoutSources(int32_t fanout,
                              const std::vector<int64_t>& in_degrees) {
    Block block;
    block.num_destinations = static_cast<int64_t>(in_degrees.size());
    block.indptr.reserve(in_degrees.size() + 1);
    block.indptr.push_back(0);
    for (const int64_t degree : in_degrees) {
      const int64_t kept =
          fanout < 0 ? degree : std::min<int64_t>(degree, fanout);
      block.indptr.push_back(block.indptr.back() + kept);
    }
    block.indices.resize(block.indptr.back());
    return block;
  }

  // Appends the sampled in-neighbors of input node `row` to picked_.
  template <typename Index>
  void PickNeighbors(absl::Span<const Index> indices, size_t layer,
                     const MiniBatch& batch, int64_t row) {
    const Index* neighbors = indices.data() + row_starts_[row];
    const int64_t degree = batch.in_degrees[row];
    const int32_t fanout = options_.fanouts[layer];
    if (fanout < 0 || degree <= fanout) {
      for (int64_t i = 0; i < degree; ++i) Pick(neighbors[i]);
      return;
    }
    // Node ids are below 2^48, so that layer and node share a coordinate.
    RandomStream random(options_.data_seed, RandomPurpose::kNeighborSampling,
                        batch.key.epoch_key, batch.key.batch,
                        static_cast<uint64_t>(layer) << 48 |
                            static_cast<uint64_t>(batch.input_nodes[row]));
    for (const int64_t i : subset_.Draw(degree, fanout, random)) {
      Pick(neighbors[i]);
    }
  }

  void Pick(NodeId node) {
    positions_.Prefetch(node);
    picked_.push_back(node);
  }

  // The position of `node` in `nodes`, to which it is added if new.
  int32_t Number(NodeId node, std::vector<NodeId>& nodes) {
    const auto next = static_cast<int32_t>(nodes.size());
    const int32_t position = positions_.FindOrAdd(node, next);
    if (position == next) nodes.push_back(node);
    return position;
  }

  const store::Topology topology_;
  const NeighborSamplerOptions options_;
  NodeTable positions_;
  SubsetDrawer subset_;
  // Where each input node's row starts in the topology's indices.
  std::vector<int64_t> row_starts_;
  // Sources of the current chunk's edges.
  std::vector<NodeId> picked_;
};

}  // namespace

std::unique_ptr<NeighborSampler> NewNeighborSampler(
    const store::Topology& topology, NeighborSamplerOptions options) {
  return std::make_unique<UniformNeighborSampler>(topology, std::move(options));
}

}  // namespace hearth::sample
