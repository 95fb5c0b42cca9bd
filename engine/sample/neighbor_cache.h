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

namespace hearth::sample {

/// The choice of the lists of a neighbor cache.
struct NeighborCacheOptions {
  /// Bytes of the lists and of the table that finds them.
  uint64_t budget_bytes = 0;
  /// [num_nodes] by which nodes are ranked: for each, its neighbors in other
  /// parts of a partition (OUTRE, section 4.2). Empty: by out-degree over
  /// in-degree (Ginex, section 3.2).
  absl::Span<const uint32_t> cross_counts = {};
};

/// The in-neighbors of the nodes that are worth it: those that are met often,
/// as they have many out-neighbors, for the room that their in-neighbors take
/// (Ginex, section 3.2); or those whose neighbors are in many parts of a
/// partition (OUTRE, section 4.2). A node's list has its in-neighbors of all
/// edge types, those of one type after those of another, by their numbers among
/// the nodes of all types. Directly addressed, by a table with an entry a node.
/// Immutable; thread-safe.
class NeighborCache {
 public:
  static constexpr uint64_t kBuildBytesPerNode = 24;

  /// A place that no list has.
  static constexpr int64_t kAbsent = -1;

  /// Takes the nodes with neighbors in descending order of their rank, of equal
  /// ones the smaller number, as long as the table (8 bytes a node) and the
  /// lists stay within the budget; lists that do not fit are passed over, and a
  /// budget below the table's size holds none. Scans the indices past the page
  /// cache, once to copy lists, and before that once to count out-degrees,
  /// where these rank. Takes kBuildBytesPerNode, besides, while it ranks nodes,
  /// counts included. DATA_LOSS, naming file and offset, for a neighbor that is
  /// no node; CANCELLED on a stop.
  static absl::StatusOr<NeighborCache> Build(
      io::FileSystem& files, const store::StoredTopology& topology,
      const NeighborCacheOptions& options, std::stop_token stop);

  /// The nodes whose lists Build takes, ascending, by the same scan to rank
  /// them; errors as Build's.
  static absl::StatusOr<std::vector<store::NodeId>> Choose(
      io::FileSystem& files, const store::StoredTopology& topology,
      const NeighborCacheOptions& options, std::stop_token stop);

  /// Reads what Dump wrote, one scan of the file. DATA_LOSS naming file and
  /// offset if it is damaged, RESOURCE_EXHAUSTED if there is no memory.
  static absl::StatusOr<NeighborCache> Load(io::FileSystem& files,
                                            const std::string& path);

  /// No lists, of any topology.
  NeighborCache() = default;

  /// Writes all of it to the file `path`, with checksums. After an error the
  /// file is gone: RESOURCE_EXHAUSTED, naming the bytes needed, if the disk is
  /// full.
  absl::Status Dump(io::FileSystem& files, const std::string& path) const;

  /// Where the list of `node` begins; kAbsent if it is not inside. A list is as
  /// long as the node's in-degree.
  int64_t Find(store::NodeId node) const {
    return table_.empty() ? kAbsent : table_[node];
  }

  /// The neighbor at `place`: Find(node) + i for the i-th of the node.
  store::NodeId At(int64_t place) const {
    return wide_ ? reinterpret_cast<const int64_t*>(lists_)[place]
                 : reinterpret_cast<const int32_t*>(lists_)[place];
  }

  /// Asks the processor for what Find(node) will look at.
  void Prefetch(store::NodeId node) const {
    if (!table_.empty()) __builtin_prefetch(&table_[node]);
  }

  /// Nodes whose lists are inside, and the neighbors in these.
  int64_t num_lists() const { return num_lists_; }
  int64_t num_neighbors() const { return num_neighbors_; }

  /// Memory it holds.
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
  // Both in memory_: [num_nodes] places, then [num_neighbors] indices.
  absl::Span<const int64_t> table_;
  const std::byte* lists_ = nullptr;
  bool wide_ = false;
  int64_t num_lists_ = 0;
  int64_t num_neighbors_ = 0;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_NEIGHBOR_CACHE_H_
