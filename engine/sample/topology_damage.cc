#include "engine/sample/topology_damage.h"

#include "absl/strings/str_cat.h"

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

}  // namespace hearth::sample
