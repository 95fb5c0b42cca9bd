#include "engine/sample/typed_layered_sampler.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "engine/sample/topology_damage.h"

namespace hearth::sample {

using store::NodeId;
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

Block TypedLayeredSampler::NewBlock(size_t layer,
                                    const MiniBatch& batch) const {
  Block block;
  block.num_destinations = std::ssize(batch.input_nodes);
  block.indptr.reserve(batch.input_nodes.size() + 1);
  block.indptr.push_back(0);
  for (size_t row = 0; row < batch.input_nodes.size(); ++row) {
    int64_t kept = 0;
    for (const List& list : ListsOf(row)) {
      const int32_t fanout = Fanout(layer, list);
      kept += fanout < 0 ? list.degree : std::min<int64_t>(list.degree, fanout);
    }
    block.indptr.push_back(block.indptr.back() + kept);
  }
  block.indices.reserve(static_cast<size_t>(block.indptr.back()));
  block.edge_types.reserve(static_cast<size_t>(block.indptr.back()));
  return block;
}

}  // namespace hearth::sample
