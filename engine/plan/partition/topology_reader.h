#ifndef HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_READER_H_
#define HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/list_window.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/store/node_space.h"
#include "engine/store/topology.h"

namespace hearth::plan {

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

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_READER_H_
