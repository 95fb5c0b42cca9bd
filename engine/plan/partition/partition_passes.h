#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_PASSES_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_PASSES_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/plan/partition/list_scatter.h"
#include "engine/plan/partition/node_arrays.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/partition/partition_context.h"
#include "engine/plan/partition/topology_scan.h"

/// Passes over the topology or the scattered lists, of which WritePartition
/// consists.

namespace hearth::plan {

/// Numbers of edges of each part.
struct EdgeCounts {
  explicit EdgeCounts(int parts = 0)
      : all(static_cast<size_t>(parts)), inner(static_cast<size_t>(parts)) {}

  EdgeCounts& operator+=(const EdgeCounts& other) {
    for (size_t part = 0; part < all.size(); ++part) {
      all[part] += other.all[part];
      inner[part] += other.inner[part];
    }
    return *this;
  }

  int64_t inner_sum() const {
    return std::accumulate(inner.begin(), inner.end(), int64_t{0});
  }

  /// Edges into the part, from anywhere.
  std::vector<int64_t> all;
  /// Edges within the part, without self-loops.
  std::vector<int64_t> inner;
};

/// Neighbors in a list of `node` that have the label of `node`, itself
/// excluded.
template <typename Label>
int64_t CountAlike(absl::Span<const store::NodeId> list, store::NodeId node,
                   const NodeLabels<Label>& labels) {
  const Label label = labels.Get(node);
  int64_t alike = 0;
  int64_t loops = 0;
  for (const store::NodeId neighbor : list) {
    alike += labels.Get(neighbor) == label ? 1 : 0;
    loops += neighbor == node ? 1 : 0;
  }
  return alike - loops;
}

/// Adds the window's edges to `counts`.
void AddEdges(const ListWindow& window, const NodeLabels<uint8_t>& labels,
              EdgeCounts& counts);

/// Counts the edges of the first level's parts, by a scan of the topology.
absl::StatusOr<EdgeCounts> CountEdges(const PartitionContext& context,
                                      const NodeLabels<uint8_t>& labels,
                                      int parts);

/// Sizes of one part of the first level.
struct FirstPart {
  int64_t nodes = 0;
  int64_t training_nodes = 0;
};

/// Result of the first level: the part of each node.
struct FirstLevel {
  NodeLabels<uint8_t> labels;
  std::vector<FirstPart> parts;
  /// Rounds that it took.
  int rounds = 0;
};

/// Places all nodes in the order of their numbers, each by its in-neighbors.
/// Alpha counts all edges, self-loops included.
absl::StatusOr<FirstLevel> PlaceFirstLevel(const PartitionContext& context);

/// Label of a node that is in no part yet.
inline constexpr uint16_t kNoPart = UINT16_MAX;

/// A part of the first level, which the second level splits.
struct SecondLevelInput {
  /// Number, sizes and lists of the first-level part.
  int first = 0;
  FirstPart size;
  const ScatteredLists& lists;
  /// Edges within the part, without self-loops.
  int64_t inner_edges = 0;
  /// First-level part of each node of the graph.
  const NodeLabels<uint8_t>& first_labels;
};

/// Places the nodes of `input` into its share of parts (LevelSplit), and writes
/// their numbers to `labels`, in which these nodes have kNoPart before. Returns
/// the sizes of the parts. May run for several inputs at a time, on different
/// threads.
absl::StatusOr<std::vector<PartEntry>> PlaceSecondLevel(
    const PartitionContext& context, const SecondLevelInput& input,
    NodeLabels<uint16_t>& labels);

/// Edges of a whole partition, and the checksum of the file of counts.
struct CrossCounts {
  int64_t inner_edges = 0;
  int64_t cut_edges = 0;
  uint32_t crc32c = 0;
};

/// Counts each node's neighbors in other parts, by a scan of the topology, and
/// writes the counts, durably, to the file `path`.
absl::StatusOr<CrossCounts> WriteCrossCounts(const PartitionContext& context,
                                             const NodeLabels<uint16_t>& labels,
                                             const std::string& path);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_PASSES_H_
