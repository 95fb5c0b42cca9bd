#ifndef HEARTH_ENGINE_STORE_STORED_TOPOLOGY_H_
#define HEARTH_ENGINE_STORE_STORED_TOPOLOGY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/io/block_device.h"
#include "engine/io/coalesce.h"
#include "engine/store/array_loader.h"
#include "engine/store/node_space.h"
#include "engine/store/topology.h"

namespace hearth::store {

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

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_STORED_TOPOLOGY_H_
