#include "engine/sample/typed_sampler.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/sample/layered_sampler.h"

namespace hearth::sample {
namespace {

using store::NodeId;
using store::Relation;

// How far ahead of its use a list of neighbors is asked for.
constexpr size_t kListsAhead = 16;

class TypedSampler final : public LayeredSampler {
 public:
  TypedSampler(absl::Span<const Relation> relations,
               const store::NodeSpace& nodes, NeighborSamplerOptions options)
      : LayeredSampler({}, std::move(options)),
        relations_(relations),
        nodes_(nodes),
        into_(nodes.num_types()) {
    for (const Relation& relation : relations_) {
      // A type without nodes has no edges to sample.
      if (relation.topology.num_nodes() == 0) continue;
      into_[nodes_.TypeOf(relation.first_destination)].push_back(&relation);
    }
  }

 private:
  // The neighbors of one edge type that an input node has.
  struct List {
    const Relation* relation = nullptr;
    // Of its first neighbor among the edges of the relation.
    int64_t start = 0;
    int64_t degree = 0;
  };

  void ForgetNodes() override {
    lists_.clear();
    first_lists_.assign(1, 0);
  }

  absl::Status LookUpNewNodes(MiniBatch& batch) override {
    const std::vector<NodeId>& nodes = batch.input_nodes;
    for (size_t i = batch.in_degrees.size(); i < nodes.size(); ++i) {
      const store::TypeId type = nodes_.TypeOf(nodes[i]);
      int64_t in_degree = 0;
      for (const Relation* const relation : into_[type]) {
        const NodeId node = nodes[i] - relation->first_destination;
        const int64_t start = relation->topology.indptr[node];
        const int64_t end = relation->topology.indptr[node + 1];
        if (start < 0 || end < start || end > relation->topology.num_edges()) {
          return absl::DataLossError(
              absl::StrCat("the topology of edge type ", relation->type,
                           " has edges ", start, " to ", end, " of node ", node,
                           ", of ", relation->topology.num_edges()));
        }
        if (end == start) continue;
        lists_.push_back({relation, start, end - start});
        in_degree += end - start;
      }
      first_lists_.push_back(lists_.size());
      batch.in_degrees.push_back(in_degree);
      batch.node_types.push_back(type);
    }
    return absl::OkStatus();
  }

  Block NewBlock(size_t layer, const MiniBatch& batch) const override {
    Block block;
    block.num_destinations = std::ssize(batch.input_nodes);
    block.indptr.reserve(batch.input_nodes.size() + 1);
    block.indptr.push_back(0);
    for (size_t row = 0; row < batch.input_nodes.size(); ++row) {
      int64_t kept = 0;
      for (const List& list : ListsOf(row)) {
        const int32_t fanout = options().Fanout(layer, list.relation->type);
        kept +=
            fanout < 0 ? list.degree : std::min<int64_t>(list.degree, fanout);
      }
      block.indptr.push_back(block.indptr.back() + kept);
    }
    block.indices.reserve(static_cast<size_t>(block.indptr.back()));
    block.edge_types.reserve(static_cast<size_t>(block.indptr.back()));
    return block;
  }

  absl::Status SampleSources(size_t layer, MiniBatch& batch,
                             Block& block) override {
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      const NodeId node = batch.input_nodes[row];
      for (const List& list : ListsOf(static_cast<size_t>(row))) {
        PrefetchLater(list);
        const absl::Status status = std::visit(
            [&](const auto indices) {
              return SampleList({.layer = layer, .node = node}, list,
                                indices.data() + list.start, batch, block);
            },
            list.relation->topology.indices);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  // Appends the edges of one list to the block.
  template <typename Index>
  absl::Status SampleList(Draw draw, const List& list, const Index* neighbors,
                          MiniBatch& batch, Block& block) {
    const Relation& relation = *list.relation;
    std::optional<int64_t> wrong;
    const auto add = [&](int64_t i) {
      const auto neighbor = static_cast<int64_t>(neighbors[i]);
      if (neighbor < 0 || neighbor >= relation.num_sources) {
        wrong = neighbor;
        return;
      }
      block.indices.push_back(
          Number(relation.first_source + neighbor, batch.input_nodes));
      block.edge_types.push_back(relation.type);
    };
    draw.edge_type = relation.type;
    draw.degree = list.degree;
    draw.fanout = options().Fanout(draw.layer, relation.type);
    if (draw.fanout < 0 || list.degree <= draw.fanout) {
      for (int64_t i = 0; i < list.degree; ++i) add(i);
    } else {
      for (const int64_t i : DrawSubset(draw, batch.key)) add(i);
    }
    if (!wrong.has_value()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        "the topology of edge type ", relation.type, " names node ", *wrong,
        ", which is not one of its ", relation.num_sources, " sources"));
  }

  absl::Span<const List> ListsOf(size_t row) const {
    return absl::MakeConstSpan(lists_).subspan(
        first_lists_[row], first_lists_[row + 1] - first_lists_[row]);
  }

  // Asks for the neighbors of a later list.
  void PrefetchLater(const List& list) const {
    const auto at = static_cast<size_t>(&list - lists_.data()) + kListsAhead;
    if (at >= lists_.size()) return;
    std::visit(
        [&](const auto indices) {
          __builtin_prefetch(indices.data() + lists_[at].start);
        },
        lists_[at].relation->topology.indices);
  }

  const absl::Span<const Relation> relations_;
  const store::NodeSpace nodes_;
  // By node type: the relations that lead to it.
  std::vector<std::vector<const Relation*>> into_;
  // Those of each input node, one after the other, and where each one's begin,
  // [input nodes + 1].
  std::vector<List> lists_;
  std::vector<size_t> first_lists_ = {0};
};

}  // namespace

std::unique_ptr<NeighborSampler> NewTypedSampler(
    absl::Span<const Relation> relations, const store::NodeSpace& nodes,
    NeighborSamplerOptions options) {
  assert(options.layer_nodes.empty());
  return std::make_unique<TypedSampler>(relations, nodes, std::move(options));
}

}  // namespace hearth::sample
