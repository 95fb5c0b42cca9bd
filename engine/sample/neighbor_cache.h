#ifndef HEARTH_ENGINE_SAMPLE_NEIGHBOR_CACHE_H_
#define HEARTH_ENGINE_SAMPLE_NEIGHBOR_CACHE_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

/// In-neighbor lists that are kept in memory for samplers of a topology on
/// disk.

namespace hearth::sample {

/// Which lists a neighbor cache holds.
struct NeighborCacheOptions {
  /// Bytes of the lists and of the table that finds them.
  uint64_t budget_bytes = 0;
  /// [num_nodes] rank of each node: its neighbors in other parts of a partition
  /// (OUTRE, section 4.2). Empty: rank by out-degree over in-degree (Ginex,
  /// section 3.2).
  absl::Span<const uint32_t> cross_counts = {};
};

/// In-neighbor lists of selected nodes: nodes that are met often, having many
/// out-neighbors, for the memory that their in-neighbors take (Ginex, section
/// 3.2); or nodes whose neighbors are in many parts of a partition (OUTRE,
/// section 4.2). A list holds the node's in-neighbors of all edge types,
/// concatenated by type, numbered among the nodes of all types. Found by a
/// table with one entry per node. Immutable; thread-safe.
class NeighborCache {
 public:
  /// Memory for ranking nodes, counts included, in Build and Choose.
  static constexpr uint64_t kBuildBytesPerNode = 24;

  /// Result of Find for a node without a list.
  static constexpr int64_t kAbsent = -1;

  /// Takes nodes with neighbors in descending order of rank, ties by smaller
  /// number, as long as the table (8 bytes a node) and the lists fit into the
  /// budget. Lists that do not fit are skipped; a budget below the table's size
  /// holds none. Scans the indices past the page cache: once to copy lists, and
  /// before that once to count out-degrees, if they are the rank. DATA_LOSS,
  /// naming file and offset, for a neighbor that is no node; CANCELLED on a
  /// stop.
  static absl::StatusOr<NeighborCache> Build(
      io::FileSystem& files, const store::StoredTopology& topology,
      const NeighborCacheOptions& options, std::stop_token stop);

  /// The nodes whose lists Build takes, ascending. Ranks by the same scan;
  /// errors as Build's.
  static absl::StatusOr<std::vector<store::NodeId>> Choose(
      io::FileSystem& files, const store::StoredTopology& topology,
      const NeighborCacheOptions& options, std::stop_token stop);

  /// Reads a cache that Dump wrote, in one scan of the file. DATA_LOSS naming
  /// file and offset if it is damaged, RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<NeighborCache> Load(io::FileSystem& files,
                                            const std::string& path);

  /// An empty cache, for any topology.
  NeighborCache() = default;

  /// Writes the cache to the file `path`, with checksums. After an error the
  /// file is gone: RESOURCE_EXHAUSTED, naming the bytes needed, if the disk is
  /// full.
  absl::Status Dump(io::FileSystem& files, const std::string& path) const;

  /// Place of the first neighbor in the list of `node`; kAbsent if it has no
  /// list here. A list is as long as the node's in-degree.
  int64_t Find(store::NodeId node) const {
    return table_.empty() ? kAbsent : table_[node];
  }

  /// The neighbor at `place`: Find(node) + i for the i-th neighbor of a node.
  store::NodeId At(int64_t place) const {
    return wide_ ? reinterpret_cast<const int64_t*>(lists_)[place]
                 : reinterpret_cast<const int32_t*>(lists_)[place];
  }

  /// Prefetches the table entry that Find(node) reads.
  void Prefetch(store::NodeId node) const {
    if (!table_.empty()) __builtin_prefetch(&table_[node]);
  }

  /// Number of lists, and of the neighbors in all of them.
  int64_t num_lists() const { return num_lists_; }
  int64_t num_neighbors() const { return num_neighbors_; }

  /// Memory of the table and the lists.
  uint64_t memory_bytes() const { return memory_.bytes().size(); }

 private:
  struct Shape {
    int64_t num_nodes = 0;
    int64_t num_lists = 0;
    int64_t num_neighbors = 0;
    bool wide = false;
  };

  static absl::StatusOr<NeighborCache> Allocate(const Shape& shape);
  absl::Span<int64_t> mutable_table();
  std::byte* mutable_lists();

  io::AlignedMemory memory_;
  // Both point into memory_: [num_nodes] places, then [num_neighbors] indices.
  absl::Span<const int64_t> table_;
  const std::byte* lists_ = nullptr;
  bool wide_ = false;
  int64_t num_lists_ = 0;
  int64_t num_neighbors_ = 0;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_NEIGHBOR_CACHE_H_
