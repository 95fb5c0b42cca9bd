#ifndef HEARTH_ENGINE_INGEST_INSPECT_TOPOLOGY_SCAN_H_
#define HEARTH_ENGINE_INGEST_INSPECT_TOPOLOGY_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// Counts the nodes of each degree, exactly. Small whatever the graph: degrees
/// that are far apart are few, as edges are. Single-owner.
class DegreeCounts {
 public:
  void Add(uint64_t degree);

  /// Nodes of that degree.
  uint64_t NumOf(uint64_t degree) const;
  /// 0 without nodes.
  double Mean() const;
  /// The least degree that `percent` of 100 nodes do not exceed; 0 without
  /// nodes. 0 < percent <= 100.
  uint64_t Percentile(uint64_t percent) const;

 private:
  uint64_t num_nodes_ = 0;
  uint64_t num_edges_ = 0;
  /// Counts of degrees below 2^12.
  std::vector<uint64_t> low_;
  std::map<uint64_t, uint64_t> high_;
};

/// Reads the ids of a stored split, one by one. Single-owner.
class IdStream {
 public:
  /// At the first id of the .npy file at `path`.
  static absl::StatusOr<IdStream> Open(io::FileSystem& files,
                                       const std::string& path);

  bool AtEnd() const { return at_ == block_.size(); }
  /// REQUIRES: !AtEnd().
  int64_t id() const { return block_[at_]; }
  absl::Status Next();

 private:
  explicit IdStream(std::unique_ptr<ArrayReader> ids) : ids_(std::move(ids)) {}

  absl::Status ReadBlock();

  std::unique_ptr<ArrayReader> ids_;
  int64_t num_read_ = 0;
  std::vector<int64_t> block_;
  size_t at_ = 0;
};

/// Counts what is in the stored edges of a dataset, one type after the other,
/// reading each from one end to the other. What needs memory for each node is
/// counted if that fits a quarter of the limit: sets of nodes all together, and
/// labels of one type. With an eighth for blocks and what is counted of the
/// labels (see label_scan.h) that stays within the limit. Single-owner.
class TopologyScan {
 public:
  /// All references must outlive this.
  TopologyScan(ImportContext& context, const std::string& folder,
               const store::Manifest& manifest);

  /// Bytes that Scan advances the context by, over all types.
  uint64_t BytesToScan() const;

  /// The edges of one type. DATA_LOSS if they are not what was written.
  absl::StatusOr<EdgeStatistics> Scan(const store::EdgeTypeEntry& edges);

  /// Once all types are scanned: nodes of a type, by its place in the
  /// manifest, without any edge. Absent if it was not counted.
  std::optional<uint64_t> NumIsolated(size_t node_type) const;

  /// Likewise, training nodes with edges, all of which leave them.
  absl::StatusOr<std::optional<uint64_t>> NumTrainOnlySources(
      size_t node_type) const;

  /// Counts that are left out, and why, in sentences.
  std::vector<std::string> Notes() const;

 private:
  /// One bit a node.
  struct Ends {
    std::vector<bool> is_destination;
    std::vector<bool> is_source;
  };

  /// Counts of one edge type.
  struct Counts;
  /// Hands out the neighbors of one node after the other.
  class NeighborStream;

  size_t FindNodes(const std::string& type) const;
  /// Whether homophily is defined, and whether it is counted.
  bool JoinsClasses(const store::EdgeTypeEntry& edges) const;
  bool FitsLabels(const store::EdgeTypeEntry& edges) const;
  absl::StatusOr<std::vector<int32_t>> ReadClasses(
      const store::NodeTypeEntry& nodes);
  absl::Status ScanLists(const store::EdgeTypeEntry& edges, Counts& counts);
  /// Counts one node's neighbors.
  static absl::Status AddList(int64_t destination, int64_t degree,
                              NeighborStream& neighbors, Counts& counts);
  int64_t BlockElements() const;

  ImportContext& context_;
  const std::string& folder_;
  const store::Manifest& manifest_;
  bool has_ends_ = false;
  /// Ends of each node type, if there is memory for them.
  std::vector<Ends> ends_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_TOPOLOGY_SCAN_H_
