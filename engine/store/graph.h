#ifndef HEARTH_ENGINE_STORE_GRAPH_H_
#define HEARTH_ENGINE_STORE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"
#include "engine/io/read_plan.h"
#include "engine/store/manifest.h"
#include "engine/store/stored_array.h"
#include "engine/store/topology.h"

namespace hearth::store {

/// Numbering of the nodes of all types: nodes of the manifest's first type,
/// then nodes of the second type, and so on. In a graph with one node type each
/// node keeps its number. A value; thread-safe.
class NodeSpace {
 public:
  NodeSpace() : NodeSpace(std::vector<int64_t>{}) {}
  explicit NodeSpace(const Manifest& manifest);
  /// `counts[t]` nodes of type t.
  explicit NodeSpace(const std::vector<int64_t>& counts);

  size_t num_types() const { return firsts_.size() - 1; }
  int64_t num_nodes() const { return firsts_.back(); }

  /// Number of the first node of `type`; num_nodes() for num_types().
  NodeId First(size_t type) const { return firsts_[type]; }

  /// The type of a node. REQUIRES: 0 <= node < num_nodes().
  TypeId TypeOf(NodeId node) const;

 private:
  // [num_types() + 1] ascending from 0.
  std::vector<NodeId> firsts_;
};

/// Relation of the manifest's edge type `edge_type`, without its topology.
Relation RelationAt(const Manifest& manifest, const NodeSpace& nodes,
                    size_t edge_type);

/// [node types] For each node type, the indices in `relations` of the relations
/// that lead to it, ascending. REQUIRES: the relations have their topologies.
std::vector<std::vector<size_t>> RelationsInto(
    absl::Span<const Relation> relations, const NodeSpace& nodes);

/// Place of the indices of one edge type.
struct IndicesFile {
  std::string path;
  /// Offset of the first index in the file.
  uint64_t offset = 0;
  /// Bytes of an index: 4 or 8.
  int index_bytes = 4;
  /// Number of the type's first edge among the edges of all types.
  int64_t first_edge = 0;
};

/// The topology of one edge type, or of all, whose indptr is in memory while
/// its indices lie in their files. Movable.
struct StoredTopology {
  /// Topology of a graph with one node type and one edge type.
  static StoredTopology Single(absl::Span<const int64_t> indptr,
                               IndicesFile file);

  /// Whether nodes or edges are of several types.
  bool is_typed() const {
    return relations.size() > 1 || nodes.num_types() > 1;
  }
  int64_t num_nodes() const { return nodes.num_nodes(); }

  /// [edge types] Relations whose topologies have no indices.
  std::vector<Relation> relations;
  /// [edge types] Places of the indices.
  std::vector<IndicesFile> files;
  NodeSpace nodes;
  /// The indices of all types, to be read as rows of one index each: 8 bytes if
  /// any type's indices have 8, else 4.
  std::unique_ptr<io::BlockDevice> indices;
  io::RowLayout layout;
  /// The arrays that `relations` views.
  std::vector<LoadedArray> indptrs;
};

/// Makes `devices`, one for each edge type, the topology's `indices`, and sets
/// `layout` and IndicesFile::first_edge.
void JoinIndices(std::vector<std::unique_ptr<io::BlockDevice>> devices,
                 StoredTopology& topology);

class LoadedTopology;

/// Number of edges from each node to itself, in a graph with one node type and
/// one edge type. Takes no memory if there are no such edges. Immutable;
/// thread-safe.
class SelfLoops {
 public:
  /// Counts self loops in all lists of `topology`, in order. CANCELLED if
  /// `stop` is requested; other errors as of LoadedTopology::status.
  static absl::StatusOr<SelfLoops> Count(const LoadedTopology& topology,
                                         const std::stop_token& stop);

  /// The most memory, in bytes, for a graph of this size.
  static uint64_t MemoryBytes(int64_t num_nodes, int64_t num_edges);

  bool empty() const { return counts_.empty(); }

  int64_t Of(NodeId node) const {
    if (counts_.empty()) return 0;
    const uint8_t count = counts_[static_cast<size_t>(node)];
    return count < kMany ? count : many_.at(node);
  }

 private:
  static constexpr uint8_t kMany = UINT8_MAX;

  // [num_nodes] Count of each node, at most kMany; or empty.
  std::vector<uint8_t> counts_;
  // Counts of the nodes with kMany and more.
  absl::flat_hash_map<NodeId, int64_t> many_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_GRAPH_H_
