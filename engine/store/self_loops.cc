#include "engine/store/self_loops.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "absl/status/status.h"
#include "engine/base/status_macros.h"
#include "engine/store/dataset.h"

namespace hearth::store {
namespace {

// Nodes between two looks at the stop token.
constexpr NodeId kStopEvery = 1 << 16;
// An entry of a hash map, with the room that it keeps empty.
constexpr uint64_t kEntryBytes = 64;

}  // namespace

absl::StatusOr<SelfLoops> SelfLoops::Count(const LoadedTopology& topology,
                                           const std::stop_token& stop) {
  const Topology& lists = topology.view();
  const auto num_nodes = static_cast<size_t>(lists.num_nodes());
  SelfLoops loops;
  const absl::Status status = std::visit(
      [&](const auto indices) -> absl::Status {
        for (NodeId node = 0; node < lists.num_nodes(); ++node) {
          if (node % kStopEvery == 0 && stop.stop_requested()) {
            return absl::CancelledError("stopped");
          }
          const int64_t count =
              std::count(indices.begin() + lists.indptr[node],
                         indices.begin() + lists.indptr[node + 1], node);
          if (count == 0) continue;
          loops.counts_.resize(num_nodes);
          loops.counts_[static_cast<size_t>(node)] =
              static_cast<uint8_t>(std::min<int64_t>(count, kMany));
          if (count >= kMany) loops.many_[node] = count;
        }
        return absl::OkStatus();
      },
      lists.indices);
  HEARTH_RETURN_IF_ERROR(status);
  HEARTH_RETURN_IF_ERROR(topology.status());
  return loops;
}

uint64_t SelfLoops::MemoryBytes(int64_t num_nodes, int64_t num_edges) {
  return static_cast<uint64_t>(num_nodes) +
         static_cast<uint64_t>(num_edges / kMany) * kEntryBytes;
}

}  // namespace hearth::store
