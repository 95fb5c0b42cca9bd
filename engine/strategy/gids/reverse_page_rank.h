#ifndef HEARTH_ENGINE_STRATEGY_GIDS_REVERSE_PAGE_RANK_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_REVERSE_PAGE_RANK_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

/// The constants of the authors' code.
struct ReversePageRankOptions {
  double damping = 0.85;
  int iterations = 20;
  /// How many neighbors of each edge type are drawn; of no account where one
  /// edge type leads to a node type.
  sample::NeighborSamplerOptions sampler = {};
  /// Hears of iterations done and in all. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
};

/// How likely sampling meets each node: weighted reverse PageRank (GIDS,
/// section 3.3). A walk begins at a random training node and goes on, with the
/// probability `damping`, to a random in-neighbor:
///
///   r_0 = t,  r_k+1(u) = (1 - d) t(u) + d sum over v of r_k(v) / deg_in(v),
///
/// over all v that have u as an in-neighbor, with t(u) = 1 / |training| on
/// training nodes and 0 elsewhere. Walks end at nodes without in-neighbors. In
/// a heterograph v splits its score over the edge types that lead to it as a
/// batch splits the neighbors that it draws of v: by min(fan-out, in-degree),
/// over all layers. [num_nodes], of all types. Scans the topology `iterations`
/// times, and takes 16 bytes a node. CANCELLED after a stop; the error of a
/// page that cannot be read.
absl::StatusOr<std::vector<double>> ReversePageRank(
    const store::LoadedTopology& topology,
    absl::Span<const store::NodeId> training,
    const ReversePageRankOptions& options, std::stop_token stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_REVERSE_PAGE_RANK_H_
