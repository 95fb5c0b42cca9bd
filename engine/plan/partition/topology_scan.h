#ifndef HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_SCAN_H_
#define HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/pipeline/pipeline.h"
#include "engine/plan/partition/partition_context.h"
#include "engine/store/dataset.h"
#include "engine/store/graph.h"
#include "engine/store/manifest.h"
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

/// All lists of a graph, node after node, from its files: past the page cache,
/// against their checksums. Nodes of all types have one numbering, and a node's
/// list has its in-neighbors of all edge types, those of one type after those
/// of another (store::NodeSpace). DATA_LOSS, naming the file, too, for an
/// indptr that descends and for a neighbor that is no node.
class TopologyReader final : public ListReader {
 public:
  /// Memory that a reader holds, given how many edge types lead to nodes of one
  /// type, at most.
  static uint64_t MemoryBytes(int64_t edge_types_into_node);

  /// Both outlive the reader. CANCELLED after a stop.
  static absl::StatusOr<std::unique_ptr<TopologyReader>> Open(
      io::FileSystem& files, const store::Dataset& dataset,
      const std::stop_token& stop);

  ~TopologyReader() override;

  absl::Status Next(ListWindow& window) override;

  /// Bytes that all lists take in their files.
  static uint64_t TotalBytes(const store::Manifest& manifest);

 private:
  class Edges;

  TopologyReader(io::FileSystem& files, const store::Dataset& dataset,
                 std::stop_token stop);

  // Opens the edges that lead to nodes of type_.
  absl::Status BeginType();
  // Begins the list of node_, which may be of another type than those in the
  // window.
  absl::Status BeginNode(ListWindow& window);
  // Adds `count` neighbors of the list that `edges` is at to the window.
  absl::Status Add(Edges& edges, int64_t count, ListWindow& window);
  // Reads what was added.
  absl::Status ReadAdded(ListWindow& window);

  io::FileSystem& files_;
  const store::Dataset& dataset_;
  const std::stop_token stop_;
  const store::NodeSpace nodes_;
  // The type of the next node, and the edges that lead to it, by edge type.
  size_t type_ = 0;
  std::vector<std::unique_ptr<Edges>> edges_;
  // The node whose list comes next, and what of edges_ is next in it.
  store::NodeId node_ = 0;
  size_t next_ = 0;
  bool in_list_ = false;
  // Neighbors that were added to the window, and are yet to be read.
  Edges* added_ = nullptr;
  int64_t num_added_ = 0;
};

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
