#include "engine/strategy/gids/reverse_page_rank.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "engine/base/status_macros.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

// Nodes between two looks at the stop token.
constexpr NodeId kNodesPerLook = 1 << 16;

// next(u) += damping * scores(v) / deg_in(v) for each in-neighbor u of each v.
template <typename Index>
absl::Status Spread(const store::Topology& topology,
                    absl::Span<const Index> indices, double damping,
                    const std::vector<double>& scores,
                    std::vector<double>& next, const std::stop_token& stop) {
  for (NodeId v = 0; v < topology.num_nodes(); ++v) {
    if (v % kNodesPerLook == 0 && stop.stop_requested()) {
      return absl::CancelledError("ranking nodes: stopped on request");
    }
    const int64_t degree = topology.InDegree(v);
    if (degree == 0 || scores[v] == 0) continue;
    const double share = damping * scores[v] / static_cast<double>(degree);
    for (int64_t edge = topology.indptr[v]; edge < topology.indptr[v + 1];
         ++edge) {
      next[static_cast<size_t>(indices[edge])] += share;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<double>> ReversePageRank(
    const store::LoadedTopology& topology, absl::Span<const NodeId> training,
    const ReversePageRankOptions& options, std::stop_token stop) {
  const store::Topology& view = topology.view();
  std::vector<double> scores(static_cast<size_t>(view.num_nodes()));
  const double start =
      training.empty() ? 0 : 1 / static_cast<double>(training.size());
  for (const NodeId node : training) scores[node] += start;
  std::vector<double> next(scores.size());
  for (int i = 0; i < options.iterations; ++i) {
    std::fill(next.begin(), next.end(), 0);
    for (const NodeId node : training) {
      next[node] += (1 - options.damping) * start;
    }
    HEARTH_RETURN_IF_ERROR(std::visit(
        [&](const auto& indices) {
          return Spread(view, indices, options.damping, scores, next, stop);
        },
        view.indices));
    // Names the file, where a page of it could not be read.
    HEARTH_RETURN_IF_ERROR(topology.status());
    std::swap(scores, next);
    if (options.progress) {
      options.progress(static_cast<uint64_t>(i) + 1,
                       static_cast<uint64_t>(options.iterations));
    }
  }
  return scores;
}

}  // namespace hearth::strategy
