#ifndef HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_SCAN_H_
#define HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_SCAN_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/pipeline/pipeline.h"
#include "engine/plan/partition/list_window.h"
#include "engine/plan/partition/partition_context.h"

namespace hearth::plan {

/// A window on its way, and what was found out about its lists.
struct WindowItem : pipeline::Item {
  ListWindow window;
};

/// A scan of the whole topology: one thread reads, some work on windows, the
/// caller's takes them in order.
struct TopologyScan {
  /// For the report of progress.
  absl::string_view stage;
  /// Makes an item, of any type derived.
  std::function<std::unique_ptr<WindowItem>()> make;
  /// Called from several threads for different items.
  std::function<absl::Status(int thread, WindowItem& item)> work;
  /// Called in the order of the nodes.
  std::function<absl::Status(WindowItem& item)> use;
};

/// Items alive at once, at most.
int ItemsInFlight(int threads);

/// The first error, of the files or the functions; CANCELLED after a stop.
absl::Status ScanTopology(const PartitionContext& context,
                          const TopologyScan& scan);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_SCAN_H_
