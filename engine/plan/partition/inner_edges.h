#ifndef HEARTH_ENGINE_PLAN_PARTITION_INNER_EDGES_H_
#define HEARTH_ENGINE_PLAN_PARTITION_INNER_EDGES_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/plan/partition/list_window.h"
#include "engine/plan/partition/node_labels.h"
#include "engine/plan/partition/partition_context.h"

namespace hearth::plan {

/// Edges of each part.
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

  /// Into the part, from anywhere.
  std::vector<int64_t> all;
  /// From the part, without self-loops.
  std::vector<int64_t> inner;
};

/// Neighbors in a list of `node` that have the label of `node`; itself not.
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

/// The edges of the parts of the first level, by a scan of the topology.
absl::StatusOr<EdgeCounts> CountEdges(const PartitionContext& context,
                                      const NodeLabels<uint8_t>& labels,
                                      int parts);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_INNER_EDGES_H_
