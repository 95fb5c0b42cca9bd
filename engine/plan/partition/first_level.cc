#include "engine/plan/partition/first_level.h"

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/plan/partition/bloom_filters.h"
#include "engine/plan/partition/fennel.h"
#include "engine/plan/partition/inner_edges.h"
#include "engine/plan/partition/level_split.h"
#include "engine/plan/partition/list_window.h"
#include "engine/plan/partition/part_counts.h"
#include "engine/plan/partition/rounds.h"
#include "engine/plan/partition/topology_scan.h"

// The order of the nodes decides everything, yet most of the work is done by
// several threads:
// 1. Threads that work on a window look up how many nodes are placed by now,
//    and count each list's neighbors among them: their parts are final. (In a
//    later round also those behind the list's node: their parts are as the
//    last round left them until their turn comes, which is not before this
//    node's.) Neighbors between are put aside: "recent" ones.
// 2. One thread takes the windows in order. To what was counted it adds a
//    list's recent neighbors, which are all placed now, places the node, and
//    only then says so.
// So each node meets exactly the parts that it would meet if one thread did
// all, whatever had been placed when it was counted. With Bloom filters, whose
// errors depend on what they hold, all neighbors count as recent.

namespace hearth::plan {
namespace {

using store::NodeId;

/// A window whose neighbors are counted as far as their parts were known.
struct CountedWindow final : WindowItem {
  struct Count {
    int part;
    uint32_t count;
  };
  // Those of list i end before [ends[i]].
  std::vector<Count> counts;
  std::vector<uint32_t> count_ends;
  std::vector<NodeId> recent;
  std::vector<uint32_t> recent_ends;
};

/// Elements of list i, given where each list's end.
template <typename T>
absl::Span<const T> Slice(const std::vector<T>& all,
                          const std::vector<uint32_t>& ends, size_t i) {
  const uint32_t begin = i == 0 ? 0 : ends[i - 1];
  return absl::MakeConstSpan(all).subspan(begin, ends[i] - begin);
}

/// One placing after the other of all nodes.
class FirstLevelPlacer {
 public:
  FirstLevelPlacer(const PartitionContext& context, NodeLabels<uint8_t> labels,
                   std::optional<BloomFilters> filters)
      : context_(context),
        fennel_({.nodes = context.shape.nodes,
                 .training_nodes = context.shape.training_nodes,
                 .edges = context.shape.edges,
                 .parts = LevelSplit(context.options.parts).first_parts()}),
        labels_(std::move(labels)),
        filters_(std::move(filters)),
        scratch_(static_cast<size_t>(context.threads())) {}

  absl::Status PlaceAll(bool again) {
    again_ = again;
    placed_.store(0, std::memory_order_relaxed);
    return ScanTopology(
        context_, {.stage = "first level",
                   .make = [] { return std::make_unique<CountedWindow>(); },
                   .work =
                       [this](int thread, WindowItem& item) {
                         Count(scratch_[static_cast<size_t>(thread)],
                               static_cast<CountedWindow&>(item));
                         return absl::OkStatus();
                       },
                   .use =
                       [this](WindowItem& item) {
                         Place(static_cast<CountedWindow&>(item));
                         return absl::OkStatus();
                       }});
  }

  absl::StatusOr<int64_t> CountInner() const {
    HEARTH_ASSIGN_OR_RETURN(const EdgeCounts counts,
                            CountEdges(context_, labels_, fennel_.parts()));
    return counts.inner_sum();
  }

  FirstLevel Finish(int rounds) && {
    FirstLevel level;
    for (int part = 0; part < fennel_.parts(); ++part) {
      level.parts.push_back(
          {fennel_.nodes(part), fennel_.training_nodes(part)});
    }
    level.labels = std::move(labels_);
    level.rounds = rounds;
    return level;
  }

 private:
  // Step 1.
  void Count(PartCounts& scratch, CountedWindow& item) const {
    const ListWindow& window = item.window;
    const NodeId placed =
        filters_.has_value() ? 0 : placed_.load(std::memory_order_acquire);
    for (size_t i = 0; i < window.size(); ++i) {
      const NodeId node = window.nodes[i];
      const NodeId behind = again_ ? node : std::numeric_limits<NodeId>::max();
      for (const NodeId neighbor : window.list(i)) {
        if (neighbor < placed || neighbor > behind) {
          scratch.Add(labels_.Get(neighbor));
        } else if (neighbor < node) {
          item.recent.push_back(neighbor);
        }
      }
      scratch.ForEach([&](int part, int64_t count) {
        item.counts.push_back({part, static_cast<uint32_t>(count)});
      });
      scratch.Clear();
      item.count_ends.push_back(static_cast<uint32_t>(item.counts.size()));
      item.recent_ends.push_back(static_cast<uint32_t>(item.recent.size()));
    }
  }

  // Step 2. What is counted of a list that is cut stays for the next window.
  void Place(const CountedWindow& item) {
    const ListWindow& window = item.window;
    for (size_t i = 0; i < window.size(); ++i) {
      for (const auto& [part, count] : Slice(item.counts, item.count_ends, i)) {
        neighbors_.Add(part, count);
      }
      for (const NodeId neighbor : Slice(item.recent, item.recent_ends, i)) {
        AddRecent(neighbor);
      }
      if (window.ends_here(i)) PlaceNode(window.nodes[i]);
    }
  }

  void AddRecent(NodeId neighbor) {
    if (filters_.has_value()) {
      filters_->Count(neighbor, neighbors_);
    } else {
      neighbors_.Add(labels_.Get(neighbor));
    }
  }

  void PlaceNode(NodeId node) {
    const bool is_training = context_.training_nodes.Contains(node);
    if (again_) fennel_.Remove(labels_.Get(node), is_training);
    const int part = fennel_.Place(neighbors_, is_training);
    neighbors_.Clear();
    labels_.Set(node, static_cast<uint8_t>(part));
    if (filters_.has_value()) filters_->Insert(node, part);
    placed_.store(node + 1, std::memory_order_release);
  }

  const PartitionContext& context_;
  Fennel fennel_;
  NodeLabels<uint8_t> labels_;
  std::optional<BloomFilters> filters_;
  // The counts of each thread of step 1.
  std::vector<PartCounts> scratch_;
  // The counts of the node that is placed next.
  PartCounts neighbors_;
  // Every node has a part already, from the round before.
  bool again_ = false;
  // Nodes that are placed in this round: those below this number.
  std::atomic<NodeId> placed_ = 0;
};

}  // namespace

absl::StatusOr<FirstLevel> PlaceFirstLevel(const PartitionContext& context) {
  HEARTH_ASSIGN_OR_RETURN(auto labels,
                          NodeLabels<uint8_t>::Make(context.shape.nodes));
  std::optional<BloomFilters> filters;
  if (context.options.membership == Membership::kBloom) {
    HEARTH_ASSIGN_OR_RETURN(
        filters,
        BloomFilters::Make(context.shape.nodes,
                           LevelSplit(context.options.parts).first_parts()));
  }
  FirstLevelPlacer placer(context, std::move(labels), std::move(filters));
  HEARTH_ASSIGN_OR_RETURN(
      const int rounds, MakeRounds(
                            context.options.rounds,
                            [&](bool again) { return placer.PlaceAll(again); },
                            [&] { return placer.CountInner(); }));
  return std::move(placer).Finish(rounds);
}

}  // namespace hearth::plan
