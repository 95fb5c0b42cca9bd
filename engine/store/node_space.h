#ifndef HEARTH_ENGINE_STORE_NODE_SPACE_H_
#define HEARTH_ENGINE_STORE_NODE_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"

namespace hearth::store {

/// Numbers the nodes of all types: those of the first type of the manifest,
/// then those of the second, and so on. In a graph of one node type each node
/// keeps its number. A value; thread-safe.
class NodeSpace {
 public:
  NodeSpace() : NodeSpace(std::vector<int64_t>{}) {}
  explicit NodeSpace(const Manifest& manifest);
  /// `counts[t]` nodes of type t.
  explicit NodeSpace(const std::vector<int64_t>& counts);

  size_t num_types() const { return firsts_.size() - 1; }
  int64_t num_nodes() const { return firsts_.back(); }

  /// The number of the first node of `type`; with num_types(), num_nodes().
  NodeId First(size_t type) const { return firsts_[type]; }

  /// The type of a node. REQUIRES: 0 <= node < num_nodes().
  TypeId TypeOf(NodeId node) const;

 private:
  // [num_types() + 1] ascending from 0.
  std::vector<NodeId> firsts_;
};

/// The edge type at `edge_type` of the manifest's, without its topology.
Relation RelationAt(const Manifest& manifest, const NodeSpace& nodes,
                    size_t edge_type);

/// [node types] The indices of those of `relations` that lead to nodes of each
/// type, ascending. They have topologies.
std::vector<std::vector<size_t>> RelationsInto(
    absl::Span<const Relation> relations, const NodeSpace& nodes);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NODE_SPACE_H_
