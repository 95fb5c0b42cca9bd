#include "engine/plan/partition/testing/naive_partition.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "engine/plan/partition/fennel.h"
#include "engine/store/testing/list_graph.h"

namespace hearth::plan {

namespace {

using store::NodeId;

// Smallest whole number that is not below 1.1 count / parts.
int64_t Capacity(int64_t count, int parts) {
  int64_t capacity = 0;
  while (capacity * 10 * parts < 11 * count) ++capacity;
  return capacity;
}

/// One level: some of the graph's nodes, to be placed into parts.
class NaiveLevel {
 public:
  NaiveLevel(const store::ListGraph& graph,
             const std::vector<bool>& is_training, std::vector<NodeId> members,
             int64_t edges, int parts)
      : graph_(graph),
        is_training_(is_training),
        members_(std::move(members)),
        edges_(edges),
        part_of_(static_cast<size_t>(graph.num_nodes()), -1),
        nodes_(static_cast<size_t>(parts)),
        training_(static_cast<size_t>(parts)) {
    for (const NodeId node : members_) {
      if (is_training_[node]) ++all_training_;
    }
    node_capacity_ = Capacity(static_cast<int64_t>(members_.size()), parts);
    training_capacity_ = Capacity(all_training_, parts);
  }

  /// Part of each member; -1 for other nodes.
  const std::vector<int>& Place(const PartitionOptions& options) {
    if (options.membership == Membership::kBloom) {
      filters_ = *BloomFilters::Make(static_cast<int64_t>(members_.size()),
                                     static_cast<int>(nodes_.size()));
    }
    int64_t most_inner = -1;
    int stalled = 0;
    for (int round = 0; round < options.rounds && stalled < 3; ++round) {
      for (const NodeId node : members_) PlaceNode(node);
      const int64_t inner = CountInner();
      stalled = inner > most_inner ? 0 : stalled + 1;
      most_inner = std::max(most_inner, inner);
    }
    return part_of_;
  }

 private:
  void PlaceNode(NodeId node) {
    if (part_of_[node] >= 0) {
      --nodes_[part_of_[node]];
      training_[part_of_[node]] -= is_training_[node] ? 1 : 0;
      part_of_[node] = -1;
    }
    PartCounts bloom;
    std::vector<int64_t> counts(nodes_.size());
    for (const NodeId neighbor : graph_.list(node)) {
      if (part_of_[neighbor] < 0) continue;
      if (filters_.has_value()) {
        filters_->Count(neighbor, bloom);
      } else {
        ++counts[part_of_[neighbor]];
      }
    }
    if (filters_.has_value()) {
      for (size_t part = 0; part < counts.size(); ++part) {
        counts[part] = bloom[static_cast<int>(part)];
      }
    }
    int part = Best(counts, is_training_[node]);
    if (part < 0) part = Best(counts, false);
    part_of_[node] = part;
    ++nodes_[part];
    training_[part] += is_training_[node] ? 1 : 0;
    if (filters_.has_value()) filters_->Insert(node, part);
  }

  int Best(const std::vector<int64_t>& counts, bool is_training) const {
    const auto parts = static_cast<int>(nodes_.size());
    const auto all = static_cast<int64_t>(members_.size());
    const double alpha = static_cast<double>(parts) *
                         static_cast<double>(edges_) /
                         (static_cast<double>(all) * static_cast<double>(all));
    int best = -1;
    double best_score = 0;
    for (int part = 0; part < parts; ++part) {
      if (nodes_[part] >= node_capacity_) continue;
      if (is_training && training_[part] >= training_capacity_) continue;
      const double score = static_cast<double>(counts[part]) -
                           (2 * alpha * static_cast<double>(nodes_[part]) +
                            std::sqrt(static_cast<double>(training_[part])));
      if (best < 0 || score > best_score) {
        best = part;
        best_score = score;
      }
    }
    return best;
  }

  int64_t CountInner() const {
    int64_t inner = 0;
    for (const NodeId node : members_) {
      for (const NodeId neighbor : graph_.list(node)) {
        if (neighbor != node && part_of_[neighbor] == part_of_[node]) ++inner;
      }
    }
    return inner;
  }

  const store::ListGraph& graph_;
  const std::vector<bool>& is_training_;
  const std::vector<NodeId> members_;
  const int64_t edges_;
  int64_t all_training_ = 0;
  int64_t node_capacity_ = 0;
  int64_t training_capacity_ = 0;
  std::vector<int> part_of_;
  std::vector<int64_t> nodes_;
  std::vector<int64_t> training_;
  std::optional<BloomFilters> filters_;
};

}  // namespace

std::vector<uint16_t> NaivePartition(const store::ListGraph& graph,
                                     absl::Span<const NodeId> training_nodes,
                                     const PartitionOptions& options) {
  const int64_t num_nodes = graph.num_nodes();
  std::vector<bool> is_training(static_cast<size_t>(num_nodes));
  for (const NodeId node : training_nodes) is_training[node] = true;
  int first_parts = 1;
  while (first_parts * first_parts < options.parts) ++first_parts;
  std::vector<NodeId> all;
  for (NodeId node = 0; node < num_nodes; ++node) all.push_back(node);
  NaiveLevel level(graph, is_training, all, graph.num_edges(), first_parts);
  const std::vector<int> first_of = level.Place(options);
  std::vector<uint16_t> parts(static_cast<size_t>(num_nodes));
  int begin = 0;
  for (int first = 0; first < first_parts; ++first) {
    const int count = options.parts / first_parts +
                      (first < options.parts % first_parts ? 1 : 0);
    std::vector<NodeId> members;
    int64_t inner = 0;
    for (const NodeId node : all) {
      if (first_of[node] != first) continue;
      members.push_back(node);
      for (const NodeId neighbor : graph.list(node)) {
        if (neighbor != node && first_of[neighbor] == first) ++inner;
      }
    }
    NaiveLevel second(graph, is_training, members, inner, count);
    const std::vector<int>& second_of = second.Place(options);
    for (const NodeId node : members) {
      parts[node] = static_cast<uint16_t>(begin + second_of[node]);
    }
    begin += count;
  }
  return parts;
}

std::vector<uint32_t> NaiveCrossCounts(const store::ListGraph& graph,
                                       absl::Span<const uint16_t> parts) {
  std::vector<uint32_t> counts(parts.size());
  for (NodeId node = 0; node < graph.num_nodes(); ++node) {
    for (const NodeId neighbor : graph.list(node)) {
      if (parts[neighbor] != parts[node]) ++counts[node];
    }
  }
  return counts;
}

}  // namespace hearth::plan
