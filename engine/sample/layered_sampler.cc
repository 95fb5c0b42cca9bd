#include "engine/sample/layered_sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/sample/history.h"

namespace hearth::sample {

absl::Status NoNode(store::NodeId node, int64_t num_nodes) {
  return absl::DataLossError(absl::StrCat("the topology names node ", node,
                                          ", which is not one of its ",
                                          num_nodes));
}

absl::Status NoRow(store::NodeId node, int64_t start, int64_t end,
                   int64_t num_edges) {
  return absl::DataLossError(absl::StrCat("the topology has edges ", start,
                                          " to ", end, " of node ", node,
                                          ", of ", num_edges));
}

absl::Status NoSource(const store::Relation& relation, int64_t source) {
  if (relation.name.empty()) return NoNode(source, relation.num_sources);
  return absl::DataLossError(absl::StrCat(
      "the topology of edge type \"", relation.name, "\" names node ", source,
      ", which is not one of its ", relation.num_sources, " sources"));
}

absl::Status NoRow(const store::Relation& relation, int64_t destination) {
  const store::Topology& topology = relation.topology;
  const int64_t start = topology.indptr[destination];
  const int64_t end = topology.indptr[destination + 1];
  if (relation.name.empty()) {
    return NoRow(destination, start, end, topology.num_edges());
  }
  return absl::DataLossError(absl::StrCat(
      "the topology of edge type \"", relation.name, "\" has edges ", start,
      " to ", end, " of node ", destination, ", of ", topology.num_edges()));
}

namespace {

constexpr int kInitialBits = 10;

}  // namespace

NodeTable::NodeTable()
    : slots_(size_t{1} << kInitialBits), shift_(64 - kInitialBits) {}

uint64_t NodeTable::MemoryBytes(int64_t num_nodes) {
  uint64_t slots = uint64_t{1} << kInitialBits;
  while (slots < 2 * static_cast<uint64_t>(num_nodes)) slots *= 2;
  // While the table grows, the old one of half the size exists too.
  return (slots + slots / 2) * sizeof(Slot);
}

void NodeTable::Clear() {
  size_ = 0;
  if (++generation_ == 0) {
    // The counter wrapped around: old stamps would equal new ones.
    slots_.assign(slots_.size(), {});
    generation_ = 1;
  }
}

void NodeTable::Grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  --shift_;
  size_ = 0;
  for (const Slot& slot : old) {
    if (slot.generation == generation_) FindOrAdd(slot.node, slot.position);
  }
}

namespace {

using store::NodeId;

constexpr int32_t kDropped = -1;

// Adds q to each source: more for edges to destinations with few in-neighbors.
void AddImportance(const Block& block, std::vector<double>& importance) {
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    const auto degree =
        static_cast<double>(block.indptr[row + 1] - block.indptr[row]);
    for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
         ++edge) {
      importance[block.indices[edge]] += 1 / (degree * degree);
    }
  }
}

// Appends weights in proportion to `parts`, with sum 1.
void AppendNormalized(const std::vector<double>& parts,
                      std::vector<float>& weights) {
  double sum = 0;
  for (const double part : parts) sum += part;
  for (const double part : parts) {
    weights.push_back(static_cast<float>(part / sum));
  }
}

}  // namespace

void LayerDraw::Thin(const Key& key, int64_t count, std::vector<NodeId>& nodes,
                     Block& block) {
  importance_.assign(nodes.size(), 0);
  AddImportance(block, importance_);
  Rank(key, nodes);
  if (std::ssize(candidates_) <= count) return;
  const auto precedes = [](const Candidate& a, const Candidate& b) {
    return std::tie(a.rank, a.position) < std::tie(b.rank, b.position);
  };
  std::nth_element(candidates_.begin(), candidates_.begin() + count,
                   candidates_.end(), precedes);
  candidates_.resize(count);
  new_positions_.assign(nodes.size(), kDropped);
  for (const Candidate& drawn : candidates_) {
    new_positions_[drawn.position] = drawn.position;
  }
  std::vector<NodeId> kept(nodes.begin(),
                           nodes.begin() + block.num_destinations);
  for (size_t position = block.num_destinations; position < nodes.size();
       ++position) {
    if (new_positions_[position] == kDropped) continue;
    new_positions_[position] = static_cast<int32_t>(kept.size());
    kept.push_back(nodes[position]);
  }
  Block thin = {.num_sources = std::ssize(kept),
                .num_destinations = block.num_destinations};
  thin.indptr.reserve(block.indptr.size());
  thin.indptr.push_back(0);
  std::vector<double> parts;
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    parts.clear();
    for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
         ++edge) {
      const int32_t position = block.indices[edge];
      if (new_positions_[position] == kDropped) continue;
      thin.indices.push_back(new_positions_[position]);
      parts.push_back(1 / importance_[position]);
    }
    AppendNormalized(parts, thin.weights);
    thin.indptr.push_back(std::ssize(thin.indices));
  }
  nodes = std::move(kept);
  block = std::move(thin);
}

// Lists all sources that have an edge, with the ranks by which they are drawn.
void LayerDraw::Rank(const Key& key, const std::vector<NodeId>& nodes) {
  candidates_.clear();
  for (size_t position = 0; position < nodes.size(); ++position) {
    if (importance_[position] == 0) continue;
    // Node ids are below 2^48, so that layer and node share a coordinate.
    RandomStream random(key.data_seed, RandomPurpose::kLayerSampling,
                        key.batch.epoch_key, key.batch.batch,
                        static_cast<uint64_t>(key.layer) << 48 |
                            static_cast<uint64_t>(nodes[position]));
    // Uniform in (0, 1).
    const double x =
        (static_cast<double>(random.Next64() >> 11) + 0.5) * 0x1p-53;
    candidates_.push_back({.rank = -std::log(x) / importance_[position],
                           .position = static_cast<int32_t>(position)});
  }
}

namespace {

// Prefetch distance, in nodes.
constexpr size_t kNodesAhead = 16;

}  // namespace

LayeredSampler::LayeredSampler(absl::Span<const int64_t> indptr,
                               NeighborSamplerOptions options)
    : indptr_(indptr), options_(std::move(options)), draw_(options_.data_seed) {
  assert(!options_.once || options_.layer_nodes.empty());
}

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
  assert(!options_.once);
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

// Appends the block whose destinations are the input nodes so far, and appends
// its new sources to the input nodes.
absl::Status LayeredSampler::SampleLayer(size_t layer, MiniBatch& batch) {
  // Its destinations have drawn already.
  const Block* const drawn =
      options_.once && !batch.blocks.empty() ? &batch.blocks.back() : nullptr;
  Block block = NewBlock(layer, drawn, batch);
  HEARTH_RETURN_IF_ERROR(SampleSources(
      layer, drawn == nullptr ? 0 : drawn->num_destinations, batch, block));
  block.num_sources = std::ssize(batch.input_nodes);
  if (!options_.layer_nodes.empty()) ThinLayer(layer, batch, block);
  batch.blocks.push_back(std::move(block));
  return LookUpNewNodes(batch);
}

// Draws the layer's nodes from all neighbors of its destinations.
void LayeredSampler::ThinLayer(size_t layer, MiniBatch& batch, Block& block) {
  std::vector<NodeId> nodes = std::exchange(batch.input_nodes, {});
  layer_draw_.Thin(
      {.data_seed = options_.data_seed, .batch = batch.key, .layer = layer},
      options_.layer_nodes[layer], nodes, block);
  positions_.Clear();
  for (const NodeId node : nodes) Number(node, batch.input_nodes);
}

// A block whose destinations are the input nodes so far, with indptr set, and
// memory for its edges, of which it has those of `drawn`, if any.
Block LayeredSampler::NewBlock(size_t layer, const Block* drawn,
                               const MiniBatch& batch) const {
  Block block = {.num_destinations = std::ssize(batch.input_nodes)};
  block.indptr.reserve(batch.input_nodes.size() + 1);
  block.indptr.push_back(0);
  if (drawn != nullptr) {
    block.indptr.assign(drawn->indptr.begin(), drawn->indptr.end());
  }
  AddRows(layer, batch, block);
  block.indices.reserve(static_cast<size_t>(block.indptr.back()));
  if (drawn != nullptr) {
    block.indices.assign(drawn->indices.begin(), drawn->indices.end());
    block.edge_types.assign(drawn->edge_types.begin(), drawn->edge_types.end());
  }
  return block;
}

void LayeredSampler::AddRows(size_t layer, const MiniBatch& batch,
                             Block& block) const {
  const int32_t fanout = options_.fanouts[layer];
  for (size_t row = block.indptr.size() - 1; row < batch.in_degrees.size();
       ++row) {
    const int64_t degree = batch.in_degrees[row];
    const int64_t kept =
        fanout < 0 ? degree : std::min<int64_t>(degree, fanout);
    block.indptr.push_back(block.indptr.back() + kept);
  }
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

using store::Relation;

TypedLayeredSampler::TypedLayeredSampler(absl::Span<const Relation> relations,
                                         const store::NodeSpace& nodes,
                                         NeighborSamplerOptions options)
    : LayeredSampler({}, std::move(options)),
      relations_(relations),
      nodes_(nodes),
      into_(store::RelationsInto(relations, nodes)) {
  assert(this->options().layer_nodes.empty());
}

void TypedLayeredSampler::ForgetNodes() {
  lists_.clear();
  first_lists_.assign(1, 0);
}

absl::Status TypedLayeredSampler::LookUpNewNodes(MiniBatch& batch) {
  const std::vector<NodeId>& nodes = batch.input_nodes;
  for (size_t i = batch.in_degrees.size(); i < nodes.size(); ++i) {
    const store::TypeId type = nodes_.TypeOf(nodes[i]);
    int64_t in_degree = 0;
    for (const size_t index : into_[type]) {
      const Relation& relation = relations_[index];
      const NodeId node = nodes[i] - relation.first_destination;
      const int64_t start = relation.topology.indptr[node];
      const int64_t end = relation.topology.indptr[node + 1];
      if (start < 0 || end < start || end > relation.topology.num_edges()) {
        return NoRow(relation, node);
      }
      if (end == start) continue;
      lists_.push_back({.relation = &relation,
                        .start = start,
                        .degree = end - start,
                        .before = in_degree});
      in_degree += end - start;
    }
    first_lists_.push_back(lists_.size());
    batch.in_degrees.push_back(in_degree);
    batch.node_types.push_back(type);
  }
  return absl::OkStatus();
}

void TypedLayeredSampler::AddRows(size_t layer, const MiniBatch& batch,
                                  Block& block) const {
  for (size_t row = block.indptr.size() - 1; row < batch.input_nodes.size();
       ++row) {
    int64_t kept = 0;
    for (const List& list : ListsOf(row)) {
      const int32_t fanout = Fanout(layer, list);
      kept += fanout < 0 ? list.degree : std::min<int64_t>(list.degree, fanout);
    }
    block.indptr.push_back(block.indptr.back() + kept);
  }
  block.edge_types.reserve(static_cast<size_t>(block.indptr.back()));
}

}  // namespace hearth::sample
