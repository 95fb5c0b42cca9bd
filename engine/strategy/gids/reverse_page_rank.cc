#include "engine/strategy/gids/reverse_page_rank.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "engine/base/status_macros.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

// Nodes between two looks at the stop token.
constexpr NodeId kNodesPerLook = 1 << 16;

// next(u) += share / deg_in(v) for each in-neighbor u of v, a destination of
// the relation.
void Spread(const store::Relation& relation, NodeId v, double share,
            std::vector<double>& next) {
  const store::Topology& topology = relation.topology;
  share /= static_cast<double>(topology.InDegree(v));
  std::visit(
      [&](const auto indices) {
        for (int64_t edge = topology.indptr[v]; edge < topology.indptr[v + 1];
             ++edge) {
          next[static_cast<size_t>(relation.first_source + indices[edge])] +=
              share;
        }
      },
      topology.indices);
}

// Neighbors of `v` along the relation that a batch draws, over all layers.
double Drawn(const store::Relation& relation, NodeId v,
             const sample::NeighborSamplerOptions& sampler) {
  const int64_t degree = relation.topology.InDegree(v);
  int64_t drawn = 0;
  for (size_t layer = 0; layer < sampler.fanouts.size(); ++layer) {
    const int32_t fanout = sampler.Fanout(layer, relation.type);
    drawn += fanout < 0 ? degree : std::min<int64_t>(fanout, degree);
  }
  return static_cast<double>(drawn);
}

// The same for all nodes of one type, to which `relations` lead: each splits
// `damping` of its score over these as sampling splits its neighbors.
absl::Status SpreadAll(absl::Span<const store::Relation* const> relations,
                       const ReversePageRankOptions& options,
                       const std::vector<double>& scores,
                       std::vector<double>& next, const std::stop_token& stop) {
  const int64_t num_nodes = relations.front()->topology.num_nodes();
  const NodeId first = relations.front()->first_destination;
  for (NodeId v = 0; v < num_nodes; ++v) {
    if (v % kNodesPerLook == 0 && stop.stop_requested()) {
      return absl::CancelledError("ranking nodes: stopped on request");
    }
    const double score = scores[static_cast<size_t>(first + v)];
    if (score == 0) continue;
    if (relations.size() == 1) {
      if (relations[0]->topology.InDegree(v) == 0) continue;
      Spread(*relations[0], v, options.damping * score, next);
      continue;
    }
    double all = 0;
    for (const store::Relation* const relation : relations) {
      all += Drawn(*relation, v, options.sampler);
    }
    for (const store::Relation* const relation : relations) {
      const double drawn = Drawn(*relation, v, options.sampler);
      if (drawn == 0) continue;
      Spread(*relation, v, options.damping * score * drawn / all, next);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<double>> ReversePageRank(
    const store::LoadedTopology& topology, absl::Span<const NodeId> training,
    const ReversePageRankOptions& options, std::stop_token stop) {
  std::map<NodeId, std::vector<const store::Relation*>> by_destination;
  for (const store::Relation& relation : topology.relations()) {
    if (relation.topology.num_nodes() == 0) continue;
    by_destination[relation.first_destination].push_back(&relation);
  }
  std::vector<double> scores(static_cast<size_t>(topology.nodes().num_nodes()));
  const double start =
      training.empty() ? 0 : 1 / static_cast<double>(training.size());
  for (const NodeId node : training) scores[node] += start;
  std::vector<double> next(scores.size());
  for (int i = 0; i < options.iterations; ++i) {
    std::fill(next.begin(), next.end(), 0);
    for (const NodeId node : training) {
      next[node] += (1 - options.damping) * start;
    }
    for (const auto& [first, relations] : by_destination) {
      HEARTH_RETURN_IF_ERROR(SpreadAll(relations, options, scores, next, stop));
    }
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
