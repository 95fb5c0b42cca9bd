#include "engine/plan/partition/inner_edges.h"

#include <memory>

#include "engine/base/status_macros.h"
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

}  // namespace hearth::plan
