#ifndef HEARTH_ENGINE_STORE_SELF_LOOPS_H_
#define HEARTH_ENGINE_STORE_SELF_LOOPS_H_

#include <cstdint>
#include <stop_token>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/store/topology.h"

namespace hearth::store {

class LoadedTopology;

/// The number of edges from each node to itself, in a graph of one node type
/// and one edge type. Holds nothing where there are none. Immutable;
/// thread-safe.
class SelfLoops {
 public:
  /// Counts them in all lists of `topology`, one after the other. CANCELLED if
  /// `stop` is requested; else errors as LoadedTopology::status.
  static absl::StatusOr<SelfLoops> Count(const LoadedTopology& topology,
                                         const std::stop_token& stop);

  /// The most that they take in memory, in a graph of this size.
  static uint64_t MemoryBytes(int64_t num_nodes, int64_t num_edges);

  bool empty() const { return counts_.empty(); }

  int64_t Of(NodeId node) const {
    if (counts_.empty()) return 0;
    const uint8_t count = counts_[static_cast<size_t>(node)];
    return count < kMany ? count : many_.at(node);
  }

 private:
  static constexpr uint8_t kMany = UINT8_MAX;

  // By node, [num_nodes], or empty.
  std::vector<uint8_t> counts_;
  // Counts of kMany and more.
  absl::flat_hash_map<NodeId, int64_t> many_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_SELF_LOOPS_H_
