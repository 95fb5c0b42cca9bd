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

/// Numbers the nodes of all types: those of the first type of the manifest,
/// then those of the second, and so on. In a graph of one node type each node
/// keeps its number. A value; thread-safe.
class NodeSpace {
 public:
  NodeSpace() : NodeSpace(std::vector<int64_t>{}) {}
  explicit NodeSpace(const Manifest& manifest);
  /// `counts[t]` nodes of type t.
  explicit NodeSpace(const std::vector<int64_t>& counts);

  size_t num_types() const { return firsts_.size() - 1; }
  int64_t num_nodes() const { return firsts_.back(); }

  /// The number of the first node of `type`; with num_types(), num_nodes().
  NodeId First(size_t type) const { return firsts_[type]; }

  /// The type of a node. REQUIRES: 0 <= node < num_nodes().
  TypeId TypeOf(NodeId node) const;

 private:
  // [num_types() + 1] ascending from 0.
  std::vector<NodeId> firsts_;
};

/// The edge type at `edge_type` of the manifest's, without its topology.
Relation RelationAt(const Manifest& manifest, const NodeSpace& nodes,
                    size_t edge_type);

/// [node types] The indices of those of `relations` that lead to nodes of each
/// type, ascending. They have topologies.
std::vector<std::vector<size_t>> RelationsInto(
    absl::Span<const Relation> relations, const NodeSpace& nodes);

/// The place of the indices of one edge type.
struct IndicesFile {
  std::string path;
  /// Where in the file the first one begins.
  uint64_t offset = 0;
  /// Bytes of an index: 4 or 8.
  int index_bytes = 4;
  /// The number of its first edge among those of all types.
  int64_t first_edge = 0;
};

/// The topology of one edge type, or of all, whose indptr is in memory while
/// its indices lie in their files. Movable.
struct StoredTopology {
  /// That of one edge type among nodes of one type.
  static StoredTopology Single(absl::Span<const int64_t> indptr,
                               IndicesFile file);

  /// Whether nodes or edges are of several types.
  bool is_typed() const {
    return relations.size() > 1 || nodes.num_types() > 1;
  }
  int64_t num_nodes() const { return nodes.num_nodes(); }

  /// [edge types] Their topologies have no indices.
  std::vector<Relation> relations;
  /// [edge types]
  std::vector<IndicesFile> files;
  NodeSpace nodes;
  /// The indices of all types, to be read as rows of one index each: of 8 bytes
  /// if any type's have 8, else of 4.
  std::unique_ptr<io::BlockDevice> indices;
  io::RowLayout layout;
  /// The arrays that `relations` views.
  std::vector<LoadedArray> indptrs;
};

/// Makes `devices`, one for each edge type, the topology's indices, and says
/// where they lie.
void JoinIndices(std::vector<std::unique_ptr<io::BlockDevice>> devices,
                 StoredTopology& topology);

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

#endif  // HEARTH_ENGINE_STORE_GRAPH_H_
