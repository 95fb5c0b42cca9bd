#ifndef HEARTH_ENGINE_STRATEGY_GIDS_HOT_NODES_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_HOT_NODES_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/gids/gids.h"
#include "engine/strategy/strategy.h"

/// The nodes of the constant buffer: scores (ReversePageRank and others), the
/// file in which a plan store keeps them, and the choice (ChooseHotNodes).

namespace hearth::strategy {

/// [num_nodes] score of each node; a higher one is hotter.
using NodeScores = std::vector<float>;

/// The `count` hottest nodes in ascending order; equally hot nodes rank by
/// number, the smaller first. Takes 8 bytes a node.
std::vector<store::NodeId> HottestNodes(const NodeScores& scores,
                                        int64_t count);

/// Bytes of the score file of a graph of `num_nodes`.
uint64_t NodeScoresFileBytes(int64_t num_nodes);

/// Replaces the file `path` by the scores, durably.
absl::Status WriteNodeScores(io::FileSystem& files, const std::string& path,
                             const NodeScores& scores);

/// Reads a file that WriteNodeScores wrote for a graph of `num_nodes`.
/// NOT_FOUND without a file; DATA_LOSS, naming the file, if it is damaged or of
/// another size; FAILED_PRECONDITION if another version of Hearth wrote it.
absl::StatusOr<NodeScores> ReadNodeScores(io::FileSystem& files,
                                          const std::string& path,
                                          int64_t num_nodes);

/// Defaults are the constants of the authors' code.
struct ReversePageRankOptions {
  double damping = 0.85;
  int iterations = 20;
  /// Fan-outs of each edge type; without effect on node types that a single
  /// edge type leads to.
  sample::NeighborSamplerOptions sampler = {};
  /// Called with iterations done and in all. May be empty.
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

/// Everything that nodes are ranked with. Outlives the call.
struct RankingContext {
  const store::Dataset& dataset;
  const store::Labels& labels;
  io::FileSystem& files;
  const Clock& clock;
  /// The store of plans with scores that take a scan of the graph, or sampling.
  plan::PlanStore& plans;
  /// Whether new scores are written to the plan store.
  bool keeps = true;
  int samplers = 1;
  const PreparationListener& listener;
  std::stop_token stop;
};

/// The nodes of the constant buffer.
struct HotNodesChoice {
  /// Ascending.
  std::vector<store::NodeId> nodes;
  /// The plan with the scores; without a plan if nothing had to be ranked.
  PreparationReport report;
};

/// A text that two jobs share only if the same nodes are chosen (the contents
/// of a hot_file aside). Depending on options.hot, it covers the training
/// nodes, or everything that decides the first training epoch's batches.
/// `training` is any training pass.
std::string HotNodesKey(const GidsOptions& options, const Pass& training,
                        const store::Manifest& manifest);

/// Chooses `count` nodes for a job with the training pass `training`. All
/// nodes, or none, need no ranking. A plan that cannot be used is made again,
/// which the listener's log says. INVALID_ARGUMENT, naming file and place, for
/// a hot_file that is no list of nodes (one that lists fewer gives fewer);
/// errors of the topology, of sampling and of the plan store; CANCELLED when a
/// stop is requested.
absl::StatusOr<HotNodesChoice> ChooseHotNodes(const RankingContext& context,
                                              const GidsOptions& options,
                                              int64_t count,
                                              const Pass& training);

/// Memory of ChooseHotNodes at most, for a graph of `num_nodes`, without
/// sampled batches.
uint64_t RankingBytes(int64_t num_nodes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_HOT_NODES_H_
