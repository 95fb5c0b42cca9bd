#include "engine/plan/partition/partition_options.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/store/node_space.h"

namespace hearth::plan {

PartitionShape PartitionShape::Of(const store::Manifest& manifest,
                                  int64_t training_nodes) {
  PartitionShape shape = {.nodes = store::NodeSpace(manifest).num_nodes(),
                          .training_nodes = training_nodes};
  std::map<std::string, int64_t> into;
  for (const store::EdgeTypeEntry& edges : manifest.edge_types) {
    shape.edges += edges.num_edges;
    shape.edge_types_into_node =
        std::max(shape.edge_types_into_node, ++into[edges.destination_type]);
  }
  return shape;
}

absl::Status CheckPartitionOptions(const PartitionOptions& options,
                                   int64_t nodes) {
  const int64_t most = std::min<int64_t>(PartitionOptions::kMaxParts, nodes);
  if (options.parts < 1 || options.parts > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("parts: ", options.parts, " is not between 1 and ", most,
                     most == nodes ? ", the number of nodes" : ""));
  }
  if (options.rounds < 1 || options.rounds > PartitionOptions::kMaxRounds) {
    return absl::InvalidArgumentError(
        absl::StrCat("rounds: ", options.rounds, " is not between 1 and ",
                     PartitionOptions::kMaxRounds));
  }
  if (options.rounds > 1 && options.membership == Membership::kBloom) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rounds: ", options.rounds,
        " cannot be made with Bloom filters, which forget no node; 1 can"));
  }
  return absl::OkStatus();
}

int DefaultParts(int64_t training_nodes, int64_t batch_size, int64_t nodes) {
  const int64_t most =
      std::max<int64_t>(1, std::min<int64_t>(10'000, nodes / 16));
  // As one number of batches and a rest, so that no product is too large.
  const int64_t batches = std::min(training_nodes / batch_size, most);
  return static_cast<int>(std::clamp<int64_t>(
      10 * batches + 10 * (training_nodes % batch_size) / batch_size, 1, most));
}

}  // namespace hearth::plan
