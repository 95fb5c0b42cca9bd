#ifndef HEARTH_ENGINE_SAMPLE_LAYERED_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_LAYERED_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_draw.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

/// Base classes of all neighbor samplers, and the parts they share: errors of a
/// damaged topology, positions of nodes in a batch, layer-wise
/// draws, and the draws of each node's neighbors.

namespace hearth::sample {

/// DATA_LOSS: `node`, a neighbor, is not below `num_nodes`.
absl::Status NoNode(store::NodeId node, int64_t num_nodes);

/// DATA_LOSS: the edges `start` to `end` of `node` do not lie within
/// `num_edges`.
absl::Status NoRow(store::NodeId node, int64_t start, int64_t end,
                   int64_t num_edges);

/// DATA_LOSS for one edge type of several, named in the message: `source` is
/// not one of its sources; the edges of `destination` do not lie within its
/// edges. Nodes are numbered within their types. A relation without a name
/// gives the messages above.
absl::Status NoSource(const store::Relation& relation, int64_t source);
absl::Status NoRow(const store::Relation& relation, int64_t destination);

/// Position of each node met in a batch: a hash table with open addressing and
/// linear probing. Its size follows the largest batch so far, not the graph.
/// Cleared in constant time. Single-owner.
class NodeTable {
 public:
  NodeTable();

  /// Upper bound of the memory of a table that has met `num_nodes` nodes,
  /// growth included: a quarter to a half of its slots are in use.
  static uint64_t MemoryBytes(int64_t num_nodes);

  /// Forgets all nodes; keeps the memory.
  void Clear();

  /// Position of `node`; a new node gets `position`.
  int32_t FindOrAdd(store::NodeId node, int32_t position) {
    if (2 * (size_ + 1) > slots_.size()) Grow();
    for (size_t at = Home(node);; at = (at + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[at];
      if (slot.generation != generation_) {
        slot = {.node = node, .position = position, .generation = generation_};
        ++size_;
        return position;
      }
      if (slot.node == node) return slot.position;
    }
  }

  /// Prefetches the slot that FindOrAdd(node) looks at first.
  void Prefetch(store::NodeId node) const {
    __builtin_prefetch(&slots_[Home(node)], /*rw=*/1);
  }

 private:
  struct Slot {
    store::NodeId node = 0;
    int32_t position = 0;
    // The slot is in use if this equals the table's generation.
    uint32_t generation = 0;
  };

  // Multiplicative hashing: the golden ratio spreads runs of ids evenly.
  size_t Home(store::NodeId node) const {
    return (static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15) >> shift_;
  }

  void Grow();

  // A power of two.
  std::vector<Slot> slots_;
  // 64 - log2(slots_.size()).
  int shift_;
  size_t size_ = 0;
  uint32_t generation_ = 1;
};

/// Layer-wise importance sampling (LADIES: Zou et al., "Layer-Dependent
/// Importance Sampling for Training Deep and Large Graph Convolutional
/// Networks", NeurIPS 2019, section 4): the nodes of a layer are drawn
/// together, in-neighbors of many of its destinations more often than others.
///
/// Single-owner: it keeps scratch memory.
class LayerDraw {
 public:
  /// Names a draw: equal keys draw the same nodes.
  struct Key {
    uint64_t data_seed = 0;
    BatchKey batch;
    /// Layer, from the seeds outward.
    size_t layer = 0;
  };

  /// Thins `block`, which has all in-edges of its destinations, to the edges
  /// whose source is among the `count` nodes drawn. `nodes` are its sources,
  /// destinations first; afterwards the destinations and the drawn nodes, in
  /// their former order.
  ///
  /// A source u is drawn, without replacement, with weight q(u), the sum of
  /// in_degree(v)^-2 over its edges to destinations v: drawn are the sources
  /// with the smallest -ln(x)/q, where x is uniform for each node. Edges of u
  /// weigh 1/q(u), normalized so that each destination's weights sum up to 1.
  /// With at most `count` sources the block stays as it is, without weights.
  void Thin(const Key& key, int64_t count, std::vector<store::NodeId>& nodes,
            Block& block);

 private:
  struct Candidate {
    double rank = 0;
    int32_t position = 0;
  };

  void Rank(const Key& key, const std::vector<store::NodeId>& nodes);

  // importance_: q by position. new_positions_: the new position of each kept
  // source, -1 for the others.
  std::vector<double> importance_;
  std::vector<int32_t> new_positions_;
  std::vector<Candidate> candidates_;
};

/// Common part of all neighbor samplers: decides which neighbors of which nodes
/// are drawn, so that batches are equal wherever neighbors are read from.
/// Single-owner.
class LayeredSampler : public NeighborSampler {
 public:
  absl::StatusOr<MiniBatch> Sample(const BatchKey& key,
                                   absl::Span<const store::NodeId> seeds) final;
  absl::StatusOr<MiniBatch> SampleTop(
      const BatchKey& key, absl::Span<const store::NodeId> seeds) final;
  absl::Status SampleRest(MiniBatch& batch) final;

 protected:
  /// `indptr`, as in store::Topology, must outlive the sampler. Sample gives
  /// DATA_LOSS where indptr or a neighbor points out of the topology.
  LayeredSampler(absl::Span<const int64_t> indptr,
                 NeighborSamplerOptions options);

  /// Extends the indptr of `block` to all input nodes so far, and reserves
  /// memory for what SampleSources appends, indices apart.
  virtual void AddRows(size_t layer, const MiniBatch& batch,
                       Block& block) const;

  /// Extends in-degrees and row starts to the input nodes added since the last
  /// call.
  virtual absl::Status LookUpNewNodes(MiniBatch& batch);

  /// Called before the input nodes are replaced.
  virtual void ForgetNodes() { row_starts_.clear(); }

  /// Appends the indices of the rows from `first_row` on to `block`, whose
  /// destinations are the input nodes so far, and whose indptr is set; earlier
  /// rows have theirs. Adds new sources to the input nodes in the order of the
  /// edges.
  virtual absl::Status SampleSources(size_t layer, int64_t first_row,
                                     MiniBatch& batch, Block& block) = 0;

  /// Start of input node `row`'s neighbors in the topology's indices.
  int64_t RowStart(int64_t row) const { return row_starts_[row]; }

  /// Calls `pick(i)`, i ascending, for each drawn neighbor of input node `row`,
  /// where i counts its neighbors in the topology's order.
  template <typename Pick>
  void DrawNeighbors(size_t layer, const MiniBatch& batch, int64_t row,
                     Pick pick) {
    draw_.ForEach({.layer = layer,
                   .node = batch.input_nodes[row],
                   .degree = batch.in_degrees[row],
                   .fanout = options_.fanouts[layer]},
                  batch.key, pick);
  }

  /// Draws from one neighbor list of several.
  NeighborDraw& draw() { return draw_; }

  const NeighborSamplerOptions& options() const { return options_; }

  /// Position of `node` in `nodes`; appends a new node.
  int32_t Number(store::NodeId node, std::vector<store::NodeId>& nodes) {
    const auto next = static_cast<int32_t>(nodes.size());
    const int32_t position = positions_.FindOrAdd(node, next);
    if (position == next) nodes.push_back(node);
    return position;
  }

  /// Prefetches what Number(node) touches.
  void PrefetchNumber(store::NodeId node) const { positions_.Prefetch(node); }

 private:
  absl::Status Start(absl::Span<const store::NodeId> nodes, MiniBatch& batch);
  Block NewBlock(size_t layer, const Block* drawn,
                 const MiniBatch& batch) const;
  absl::Status SampleLayer(size_t layer, MiniBatch& batch);
  void ThinLayer(size_t layer, MiniBatch& batch, Block& block);

  const absl::Span<const int64_t> indptr_;
  const NeighborSamplerOptions options_;
  NodeTable positions_;
  NeighborDraw draw_;
  LayerDraw layer_draw_;
  // Start of each input node's row in the topology's indices.
  std::vector<int64_t> row_starts_;
};

/// Common part of samplers of heterographs: finds the neighbor lists of the
/// input nodes, one for each edge type. Single-owner.
class TypedLayeredSampler : public LayeredSampler {
 protected:
  /// Uses only the indptr of `relations`; both must outlive the sampler.
  TypedLayeredSampler(absl::Span<const store::Relation> relations,
                      const store::NodeSpace& nodes,
                      NeighborSamplerOptions options);

  /// Neighbors of an input node by one edge type.
  struct List {
    const store::Relation* relation = nullptr;
    /// Index of the first neighbor among the edges of the relation.
    int64_t start = 0;
    /// Neighbors in this list (1 or more), and in the node's lists before it.
    int64_t degree = 0;
    int64_t before = 0;
  };

  /// Lists of input node `row`, by edge type.
  absl::Span<const List> ListsOf(size_t row) const {
    return all_lists().subspan(first_lists_[row],
                               first_lists_[row + 1] - first_lists_[row]);
  }

  /// Lists of all input nodes, concatenated by node.
  absl::Span<const List> all_lists() const { return lists_; }

  /// Upper bound of the neighbors that a layer draws from `list`; -1 = all.
  int32_t Fanout(size_t layer, const List& list) const {
    return options().Fanout(layer, list.relation->type);
  }

  /// Calls `pick(i)`, i ascending, for each drawn neighbor of `list`, a list of
  /// `node`, where i counts the list's neighbors in the topology's order.
  template <typename Pick>
  void DrawFrom(const List& list, size_t layer, store::NodeId node,
                const BatchKey& key, Pick pick) {
    draw().ForEach({.layer = layer,
                    .node = node,
                    .edge_type = list.relation->type,
                    .degree = list.degree,
                    .fanout = Fanout(layer, list)},
                   key, pick);
  }

 private:
  void AddRows(size_t layer, const MiniBatch& batch, Block& block) const final;
  absl::Status LookUpNewNodes(MiniBatch& batch) final;
  void ForgetNodes() final;

  const absl::Span<const store::Relation> relations_;
  const store::NodeSpace nodes_;
  // Relations that lead to each node type.
  const std::vector<std::vector<size_t>> into_;
  std::vector<List> lists_;
  // [input nodes + 1] index in lists_ of each input node's first list.
  std::vector<size_t> first_lists_ = {0};
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_LAYERED_SAMPLER_H_
