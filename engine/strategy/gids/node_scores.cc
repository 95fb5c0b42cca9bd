#include "engine/strategy/gids/node_scores.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/store/node_columns.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

constexpr store::NodeColumnsKind kKind = {.name = "list of node scores"};

}  // namespace

std::vector<NodeId> HottestNodes(const NodeScores& scores, int64_t count) {
  std::vector<NodeId> nodes(scores.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  if (count < static_cast<int64_t>(nodes.size())) {
    const auto end = nodes.begin() + std::max<int64_t>(count, 0);
    std::nth_element(nodes.begin(), end, nodes.end(), [&](NodeId a, NodeId b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    });
    nodes.erase(end, nodes.end());
    nodes.shrink_to_fit();
    std::sort(nodes.begin(), nodes.end());
  }
  return nodes;
}

uint64_t NodeScoresFileBytes(int64_t num_nodes) {
  return store::NodeColumnsBytes(kKind, num_nodes);
}

absl::Status WriteNodeScores(io::FileSystem& files, const std::string& path,
                             const NodeScores& scores) {
  return store::WriteNodeColumns(files, path, kKind, /*facts=*/{}, {scores});
}

absl::StatusOr<NodeScores> ReadNodeScores(io::FileSystem& files,
                                          const std::string& path,
                                          int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(
      store::NodeColumns read,
      store::ReadNodeColumns(files, path, kKind, num_nodes));
  return std::move(read.columns[0]);
}

}  // namespace hearth::strategy
