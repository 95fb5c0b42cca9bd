#ifndef HEARTH_ENGINE_PLAN_PARTITION_LIST_WINDOW_H_
#define HEARTH_ENGINE_PLAN_PARTITION_LIST_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/store/topology.h"

namespace hearth::plan {

/// Some lists of in-neighbors in a row: no more than 4,096, and no more than
/// 65,536 neighbors, so that hubs take no memory: what does not fit of the last
/// list comes first in the window behind.
struct ListWindow {
  static constexpr size_t kMaxLists = 4096;
  static constexpr size_t kMaxNeighbors = 64 << 10;
  /// Memory of a window, at most.
  static constexpr uint64_t kMaxBytes =
      kMaxLists * (sizeof(store::NodeId) + sizeof(uint32_t)) +
      kMaxNeighbors * sizeof(store::NodeId);

  std::vector<store::NodeId> nodes;
  /// List i, of nodes[i], ends before neighbors[ends[i]].
  std::vector<uint32_t> ends;
  std::vector<store::NodeId> neighbors;
  /// The last list goes on in the next window.
  bool is_cut = false;

  size_t size() const { return nodes.size(); }
  bool empty() const { return nodes.empty(); }

  absl::Span<const store::NodeId> list(size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return absl::MakeConstSpan(neighbors).subspan(begin, ends[i] - begin);
  }

  /// Whether list i ends here.
  bool ends_here(size_t i) const { return !is_cut || i + 1 < nodes.size(); }

  void Clear() {
    nodes.clear();
    ends.clear();
    neighbors.clear();
    is_cut = false;
  }
};

/// Lists of in-neighbors, their nodes ascending, from the first to the last.
/// Single-owner.
class ListReader {
 public:
  virtual ~ListReader() = default;

  /// Replaces `window` by the next lists; empty at the end.
  virtual absl::Status Next(ListWindow& window) = 0;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_LIST_WINDOW_H_
