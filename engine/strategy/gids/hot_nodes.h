#ifndef HEARTH_ENGINE_STRATEGY_GIDS_HOT_NODES_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_HOT_NODES_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/gids/options.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

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
