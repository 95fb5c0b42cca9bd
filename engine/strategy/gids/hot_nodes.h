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

namespace hearth::strategy {

/// [num_nodes] how hot each node is; more is hotter.
using NodeScores = std::vector<float>;

/// The `count` hottest nodes, of equally hot ones those of smaller number, in
/// ascending order. Takes 8 bytes a node.
std::vector<store::NodeId> HottestNodes(const NodeScores& scores,
                                        int64_t count);

/// Bytes of the file of a graph of `num_nodes`.
uint64_t NodeScoresFileBytes(int64_t num_nodes);

/// Replaces the file `path` by the scores, durably.
absl::Status WriteNodeScores(io::FileSystem& files, const std::string& path,
                             const NodeScores& scores);

/// Reads what WriteNodeScores wrote for a graph of `num_nodes`. NOT_FOUND if it
/// is not there; DATA_LOSS, naming the file, if it is damaged or of another
/// size; FAILED_PRECONDITION if another version of Hearth wrote it.
absl::StatusOr<NodeScores> ReadNodeScores(io::FileSystem& files,
                                          const std::string& path,
                                          int64_t num_nodes);

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

/// Everything that nodes are ranked with; it outlives the call.
struct RankingContext {
  const store::Dataset& dataset;
  const store::Labels& labels;
  io::FileSystem& files;
  const Clock& clock;
  /// Keeps the scores that take a scan of the graph, or sampling.
  plan::PlanStore& plans;
  /// Whether scores that are not there are kept, once made.
  bool keeps = true;
  int samplers = 1;
  const PreparationListener& listener;
  std::stop_token stop;
};

/// The nodes of the constant buffer.
struct HotNodesChoice {
  /// In ascending order.
  std::vector<store::NodeId> nodes;
  /// The plan of the scores; none where nothing had to be ranked.
  PreparationReport report;
};

/// Text that differs where other nodes would be chosen, but for what a hot_file
/// holds: by the training nodes, or all that decides about the first training
/// epoch's batches. `training` is any training pass.
std::string HotNodesKey(const GidsOptions& options, const Pass& training,
                        const store::Manifest& manifest);

/// Chooses `count` of the nodes for a job that has the training pass
/// `training`. All nodes, and none, need no ranking. A plan that cannot be used
/// is made anew, which the listener hears. INVALID_ARGUMENT, naming file and
/// place, for a hot_file that is no list of nodes (one that lists fewer gives
/// fewer); errors of the topology, of sampling and of the plan store;
/// CANCELLED when a stop is requested.
absl::StatusOr<HotNodesChoice> ChooseHotNodes(const RankingContext& context,
                                              const GidsOptions& options,
                                              int64_t count,
                                              const Pass& training);

/// Memory of ChooseHotNodes, at most, for a graph of so many nodes, beside
/// sampled batches.
uint64_t RankingBytes(int64_t num_nodes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_HOT_NODES_H_
