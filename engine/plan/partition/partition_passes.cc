#include "engine/plan/partition/partition_passes.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/plan/partition/fennel.h"
#include "engine/plan/partition/topology_scan.h"

namespace hearth::plan {

void AddEdges(const ListWindow& window, const NodeLabels<uint8_t>& labels,
              EdgeCounts& counts) {
  for (size_t i = 0; i < window.size(); ++i) {
    const store::NodeId node = window.nodes[i];
    const absl::Span<const store::NodeId> list = window.list(i);
    const size_t part = labels.Get(node);
    counts.all[part] += static_cast<int64_t>(list.size());
    counts.inner[part] += CountAlike(list, node, labels);
  }
}

absl::StatusOr<EdgeCounts> CountEdges(const PartitionContext& context,
                                      const NodeLabels<uint8_t>& labels,
                                      int parts) {
  std::vector<EdgeCounts> of_thread(static_cast<size_t>(context.threads()),
                                    EdgeCounts(parts));
  HEARTH_RETURN_IF_ERROR(ScanTopology(
      context, {.stage = "inner edges",
                .make = [] { return std::make_unique<WindowItem>(); },
                .work =
                    [&](int thread, WindowItem& item) {
                      AddEdges(item.window, labels,
                               of_thread[static_cast<size_t>(thread)]);
                      return absl::OkStatus();
                    },
                .use = [](WindowItem&) { return absl::OkStatus(); }}));
  EdgeCounts counts(parts);
  for (const EdgeCounts& some : of_thread) counts += some;
  return counts;
}

// The order of the nodes decides everything, yet several threads do most of the
// work:
// 1. Threads that work on a window look up how many nodes are placed by now,
//    and count each list's neighbors among these: their parts are final. In
//    later rounds they also count neighbors after the list's node: these keep
//    their parts of the last round until they are placed, after this node.
//    Neighbors in between are put aside as "recent".
// 2. One thread takes the windows in order. It adds a list's recent neighbors,
//    all of them placed by now, to the counts, places the node, and only then
//    publishes that it is placed.
// So each node meets exactly the parts that it would meet with one thread. With
// Bloom filters, whose errors depend on what they hold, all neighbors are
// recent.

namespace {

using store::NodeId;

/// A window with counts of the neighbors whose parts were known.
struct CountedWindow final : WindowItem {
  struct Count {
    int part;
    uint32_t count;
  };
  // Counts of list i end before counts[count_ends[i]]; the same for recent.
  std::vector<Count> counts;
  std::vector<uint32_t> count_ends;
  std::vector<NodeId> recent;
  std::vector<uint32_t> recent_ends;
};

/// Elements of list i, given where each list ends.
template <typename T>
absl::Span<const T> Slice(const std::vector<T>& all,
                          const std::vector<uint32_t>& ends, size_t i) {
  const uint32_t begin = i == 0 ? 0 : ends[i - 1];
  return absl::MakeConstSpan(all).subspan(begin, ends[i] - begin);
}

/// Places all nodes once per round.
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

  // Step 2. Counts of a list that is cut stay for the next window.
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
  // Counts of each thread, in step 1.
  std::vector<PartCounts> scratch_;
  // Counts of the node that is placed next.
  PartCounts neighbors_;
  // Whether every node has a part, from the previous round.
  bool again_ = false;
  // Nodes below this number are placed in this round.
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

namespace {

class SecondLevelPlacer {
 public:
  SecondLevelPlacer(const PartitionContext& context,
                    const SecondLevelInput& input,
                    std::optional<BloomFilters> filters,
                    NodeLabels<uint16_t>& labels)
      : context_(context),
        input_(input),
        begin_(static_cast<uint32_t>(
            LevelSplit(context.options.parts).begin(input.first))),
        fennel_(
            {.nodes = input.size.nodes,
             .training_nodes = input.size.training_nodes,
             .edges = input.inner_edges,
             .parts =
                 LevelSplit(context.options.parts).second_parts(input.first)}),
        filters_(std::move(filters)),
        labels_(labels),
        list_sizes_(static_cast<size_t>(fennel_.parts())) {}

  absl::Status PlaceAll() {
    bool in_list = false;
    list_sizes_.assign(list_sizes_.size(), 0);
    return ForEachWindow([&](const ListWindow& window) {
      for (size_t i = 0; i < window.size(); ++i) {
        const NodeId node = window.nodes[i];
        if (!in_list) TakeOut(node);
        Count(node, window.list(i));
        list_size_ += static_cast<int64_t>(window.list(i).size());
        in_list = !window.ends_here(i);
        if (!in_list) Place(node);
      }
    });
  }

  absl::StatusOr<int64_t> CountInner() const {
    int64_t inner = 0;
    HEARTH_RETURN_IF_ERROR(ForEachWindow([&](const ListWindow& window) {
      for (size_t i = 0; i < window.size(); ++i) {
        inner += CountAlike(window.list(i), window.nodes[i], labels_);
      }
    }));
    return inner;
  }

  /// Sizes of the parts after the last round.
  std::vector<PartEntry> Sizes() const {
    std::vector<PartEntry> sizes;
    for (int part = 0; part < fennel_.parts(); ++part) {
      sizes.push_back({.nodes = fennel_.nodes(part),
                       .neighbors = list_sizes_[static_cast<size_t>(part)],
                       .training_nodes = fennel_.training_nodes(part)});
    }
    return sizes;
  }

 private:
  absl::Status ForEachWindow(
      absl::FunctionRef<void(const ListWindow&)> use) const {
    return input_.lists.ForEachWindow(input_.first, context_.run.stop, use);
  }

  // Takes a node out of its part; in the first round it is in none.
  void TakeOut(NodeId node) {
    const uint16_t label = labels_.Get(node);
    if (label == kNoPart) return;
    fennel_.Remove(static_cast<int>(label - begin_),
                   context_.training_nodes.Contains(node));
    labels_.Set(node, kNoPart);
  }

  void Count(NodeId node, absl::Span<const NodeId> list) {
    if (filters_.has_value()) {
      for (const NodeId neighbor : list) {
        if (neighbor < node && input_.first_labels.Get(neighbor) ==
                                   static_cast<uint8_t>(input_.first)) {
          filters_->Count(neighbor, neighbors_);
        }
      }
      return;
    }
    const auto parts = static_cast<uint32_t>(fennel_.parts());
    for (const NodeId neighbor : list) {
      // Nodes of other first-level parts have labels out of this range,
      // whatever other threads write.
      const uint32_t part = labels_.Get(neighbor) - begin_;
      if (part < parts) neighbors_.Add(static_cast<int>(part));
    }
  }

  void Place(NodeId node) {
    const int part =
        fennel_.Place(neighbors_, context_.training_nodes.Contains(node));
    neighbors_.Clear();
    if (filters_.has_value()) filters_->Insert(node, part);
    labels_.Set(node,
                static_cast<uint16_t>(begin_ + static_cast<uint32_t>(part)));
    list_sizes_[static_cast<size_t>(part)] += list_size_;
    list_size_ = 0;
  }

  const PartitionContext& context_;
  const SecondLevelInput& input_;
  // Number of the first part that is made.
  const uint32_t begin_;
  Fennel fennel_;
  std::optional<BloomFilters> filters_;
  NodeLabels<uint16_t>& labels_;
  // Parts of the neighbors of the node that is placed next, and the number of
  // its neighbors.
  PartCounts neighbors_;
  int64_t list_size_ = 0;
  // Sum of the neighbors of each part's nodes.
  std::vector<int64_t> list_sizes_;
};

}  // namespace

absl::StatusOr<std::vector<PartEntry>> PlaceSecondLevel(
    const PartitionContext& context, const SecondLevelInput& input,
    NodeLabels<uint16_t>& labels) {
  std::optional<BloomFilters> filters;
  if (context.options.membership == Membership::kBloom) {
    HEARTH_ASSIGN_OR_RETURN(
        filters,
        BloomFilters::Make(
            input.size.nodes,
            LevelSplit(context.options.parts).second_parts(input.first)));
  }
  SecondLevelPlacer placer(context, input, std::move(filters), labels);
  HEARTH_RETURN_IF_ERROR(MakeRounds(
                             context.options.rounds,
                             [&](bool) { return placer.PlaceAll(); },
                             [&] { return placer.CountInner(); })
                             .status());
  return placer.Sizes();
}

namespace {

/// A window with the counts of its lists.
struct CrossWindow final : WindowItem {
  std::vector<int64_t> cross;
  // Inner edges of all lists together.
  int64_t inner = 0;
};

void Count(const NodeLabels<uint16_t>& labels, CrossWindow& item) {
  const ListWindow& window = item.window;
  for (size_t i = 0; i < window.size(); ++i) {
    const NodeId node = window.nodes[i];
    const uint16_t label = labels.Get(node);
    int64_t cross = 0;
    int64_t loops = 0;
    const absl::Span<const NodeId> list = window.list(i);
    for (const NodeId neighbor : list) {
      cross += labels.Get(neighbor) != label ? 1 : 0;
      loops += neighbor == node ? 1 : 0;
    }
    item.cross.push_back(cross);
    item.inner += static_cast<int64_t>(list.size()) - cross - loops;
  }
}

/// Writes the count of each list, in order. Single-owner.
class CountWriter {
 public:
  explicit CountWriter(io::StreamWriter& file) : file_(file) {}

  absl::Status Append(const CrossWindow& item) {
    const ListWindow& window = item.window;
    counts_.inner_edges += item.inner;
    values_.clear();
    for (size_t i = 0; i < window.size(); ++i) {
      cross_ += item.cross[i];
      if (!window.ends_here(i)) continue;
      counts_.cut_edges += cross_;
      values_.push_back(static_cast<uint32_t>(
          std::min<int64_t>(cross_, std::numeric_limits<uint32_t>::max())));
      cross_ = 0;
    }
    return file_.Append({reinterpret_cast<const std::byte*>(values_.data()),
                         values_.size() * sizeof(uint32_t)});
  }

  const CrossCounts& counts() const { return counts_; }

 private:
  io::StreamWriter& file_;
  CrossCounts counts_;
  // Count of the next list, as far as it is known.
  int64_t cross_ = 0;
  std::vector<uint32_t> values_;
};

}  // namespace

absl::StatusOr<CrossCounts> WriteCrossCounts(const PartitionContext& context,
                                             const NodeLabels<uint16_t>& labels,
                                             const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::StreamWriter> file,
      io::StreamWriter::Create(
          context.files, path,
          static_cast<uint64_t>(context.shape.nodes) * sizeof(uint32_t)));
  CountWriter writer(*file);
  HEARTH_RETURN_IF_ERROR(ScanTopology(
      context, {.stage = "cross counts",
                .make = [] { return std::make_unique<CrossWindow>(); },
                .work =
                    [&](int, WindowItem& item) {
                      Count(labels, static_cast<CrossWindow&>(item));
                      return absl::OkStatus();
                    },
                .use =
                    [&](WindowItem& item) {
                      return writer.Append(static_cast<CrossWindow&>(item));
                    }}));
  HEARTH_RETURN_IF_ERROR(file->Finish());
  CrossCounts counts = writer.counts();
  counts.crc32c = file->crc();
  return counts;
}

}  // namespace hearth::plan
