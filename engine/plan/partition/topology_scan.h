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

/// Reads all neighbor lists of a graph in windows of bounded size, which
/// several threads work on.

namespace hearth::plan {

/// Consecutive lists of in-neighbors: at most 4,096 lists with 65,536
/// neighbors, so that hubs take no more memory. A list that does not fit is cut
/// and continues at the beginning of the next window.
struct ListWindow {
  static constexpr size_t kMaxLists = 4096;
  static constexpr size_t kMaxNeighbors = 64 << 10;
  /// Upper bound of a window's memory.
  static constexpr uint64_t kMaxBytes =
      kMaxLists * (sizeof(store::NodeId) + sizeof(uint32_t)) +
      kMaxNeighbors * sizeof(store::NodeId);

  std::vector<store::NodeId> nodes;
  /// List i, of nodes[i], ends before neighbors[ends[i]].
  std::vector<uint32_t> ends;
  std::vector<store::NodeId> neighbors;
  /// Whether the last list continues in the next window.
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

/// A sequence of lists of in-neighbors, in ascending order of their nodes.
/// Single-owner.
/// Single-owner.
class ListReader {
 public:
  virtual ~ListReader() = default;

  /// Replaces `window` by the next lists; empty at the end.
  virtual absl::Status Next(ListWindow& window) = 0;
};

/// Reads all lists of a graph from its files, node after node, past the page
/// cache, verified against their checksums. Nodes of all types share one
/// numbering, and a node's list has its in-neighbors of all edge types,
/// concatenated by type (store::NodeSpace). DATA_LOSS, naming the file, also
/// for a descending indptr and for a neighbor that is no node.
class TopologyReader final : public ListReader {
 public:
  /// Memory of a reader, where at most `edge_types_into_node` edge types lead
  /// to nodes of one type.
  static uint64_t MemoryBytes(int64_t edge_types_into_node);

  /// `files` and `dataset` must outlive the reader. CANCELLED after a stop.
  static absl::StatusOr<std::unique_ptr<TopologyReader>> Open(
      io::FileSystem& files, const store::Dataset& dataset,
      const std::stop_token& stop);

  ~TopologyReader() override;

  absl::Status Next(ListWindow& window) override;

  /// Bytes of all lists in their files.
  static uint64_t TotalBytes(const store::Manifest& manifest);

 private:
  class Edges;

  TopologyReader(io::FileSystem& files, const store::Dataset& dataset,
                 std::stop_token stop);

  // Opens the edges that lead to nodes of type_.
  absl::Status BeginType();
  // Begins the list of node_, whose type may differ from that of the window's
  // last list.
  absl::Status BeginNode(ListWindow& window);
  // Adds `count` neighbors of the current list of `edges` to the window.
  absl::Status Add(Edges& edges, int64_t count, ListWindow& window);
  // Reads the neighbors that Add has added.
  absl::Status ReadAdded(ListWindow& window);

  io::FileSystem& files_;
  const store::Dataset& dataset_;
  const std::stop_token stop_;
  const store::NodeSpace nodes_;
  // Type of the next node, and the edges that lead to it, by edge type.
  size_t type_ = 0;
  std::vector<std::unique_ptr<Edges>> edges_;
  // Node of the next list, and the index in edges_ of its next edge type.
  store::NodeId node_ = 0;
  size_t next_ = 0;
  bool in_list_ = false;
  // Edge type and number of neighbors that Add has added, but that are not yet
  // read.
  Edges* added_ = nullptr;
  int64_t num_added_ = 0;
};

/// A window in flight; derived types add what was found out about its lists.
struct WindowItem : pipeline::Item {
  ListWindow window;
};

/// A scan of the whole topology: one thread reads, several work on windows, and
/// the caller's thread uses them in order.
struct TopologyScan {
  /// Name of the stage in reports of progress.
  absl::string_view stage;
  /// Makes an item, of WindowItem or a derived type.
  std::function<std::unique_ptr<WindowItem>()> make;
  /// Called from several threads, for different items.
  std::function<absl::Status(int thread, WindowItem& item)> work;
  /// Called on the caller's thread, in the order of the nodes.
  std::function<absl::Status(WindowItem& item)> use;
};

/// Upper bound of the items alive at once.
int ItemsInFlight(int threads);

/// Runs the scan. The first error of the files or the functions; CANCELLED
/// after a stop.
absl::Status ScanTopology(const PartitionContext& context,
                          const TopologyScan& scan);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_SCAN_H_
