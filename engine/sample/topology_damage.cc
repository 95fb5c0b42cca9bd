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

}  // namespace hearth::sample
