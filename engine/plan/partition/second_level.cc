#include "engine/plan/partition/second_level.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/plan/partition/bloom_filters.h"
#include "engine/plan/partition/fennel.h"
#include "engine/plan/partition/inner_edges.h"
#include "engine/plan/partition/level_split.h"
#include "engine/plan/partition/list_window.h"
#include "engine/plan/partition/part_counts.h"
#include "engine/plan/partition/rounds.h"

namespace hearth::plan {
namespace {

using store::NodeId;

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

  /// The sizes that the parts have after the last round.
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

  // In the first round, nodes are in no part.
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
      // Those of other first-level parts have labels beyond these, below or
      // above, whatever other threads write.
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
  // The number of the first part that is made.
  const uint32_t begin_;
  Fennel fennel_;
  std::optional<BloomFilters> filters_;
  NodeLabels<uint16_t>& labels_;
  // The node that is placed next: the parts of its neighbors, and how many
  // neighbors there are.
  PartCounts neighbors_;
  int64_t list_size_ = 0;
  // Neighbors of all nodes of each part.
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

}  // namespace hearth::plan
