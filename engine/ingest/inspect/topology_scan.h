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

/// Statistics of edges: degrees, isolated nodes, homophily.

namespace hearth::ingest {

/// Counts nodes by degree, exactly. Takes little memory for any graph: large
/// degrees are rare, since edges are limited. Single-owner.
class DegreeCounts {
 public:
  void Add(uint64_t degree);

  /// Number of nodes of degree `degree`.
  uint64_t NumOf(uint64_t degree) const;
  /// Mean degree; 0 without nodes.
  double Mean() const;
  /// Least degree that `percent` percent of the nodes do not exceed; 0 without
  /// nodes. REQUIRES: 0 < percent <= 100.
  uint64_t Percentile(uint64_t percent) const;

 private:
  uint64_t num_nodes_ = 0;
  uint64_t num_edges_ = 0;
  /// Numbers of nodes of degrees below 2^12.
  std::vector<uint64_t> low_;
  std::map<uint64_t, uint64_t> high_;
};

/// Reads the ids of a stored split one by one. Single-owner.
class IdStream {
 public:
  /// Opens the .npy file at `path`, at its first id.
  static absl::StatusOr<IdStream> Open(io::FileSystem& files,
                                       const std::string& path);

  bool AtEnd() const { return at_ == block_.size(); }
  /// The current id. REQUIRES: !AtEnd().
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

/// Computes statistics of the stored edges of a dataset, one edge type after
/// another, each read from end to end. Statistics that need memory per node are
/// computed if it fits: sets of nodes a quarter of the limit all together,
/// labels of one type another quarter. Blocks take an eighth; with the labels'
/// statistics (ScanLabels), which take a quarter, all stays within the limit.
/// Single-owner.
class TopologyScan {
 public:
  /// All references must outlive this.
  TopologyScan(ImportContext& context, const std::string& folder,
               const store::Manifest& manifest);

  /// Bytes by which Scan advances the context, over all edge types.
  uint64_t BytesToScan() const;

  /// Statistics of the edges of one type. DATA_LOSS if they are no longer as
  /// written.
  absl::StatusOr<EdgeStatistics> Scan(const store::EdgeTypeEntry& edges);

  /// Number of nodes without any edge, of the node type at index `node_type` of
  /// the manifest; nullopt if it was not counted. REQUIRES: all edge types are
  /// scanned.
  std::optional<uint64_t> NumIsolated(size_t node_type) const;

  /// Number of training nodes all of whose edges, one or more, leave them;
  /// nullopt and requirement as NumIsolated.
  absl::StatusOr<std::optional<uint64_t>> NumTrainOnlySources(
      size_t node_type) const;

  /// Statistics that were left out, and why, in sentences.
  std::vector<std::string> Notes() const;

 private:
  /// Sets of nodes at the ends of edges, one bit per node.
  struct Ends {
    std::vector<bool> is_destination;
    std::vector<bool> is_source;
  };

  /// Statistics of one edge type while it is scanned.
  struct Counts;
  /// Reads the neighbors of one node after another.
  class NeighborStream;

  size_t FindNodes(const std::string& type) const;
  /// Whether homophily is defined for an edge type, and whether it is computed.
  bool JoinsClasses(const store::EdgeTypeEntry& edges) const;
  bool FitsLabels(const store::EdgeTypeEntry& edges) const;
  absl::StatusOr<std::vector<int32_t>> ReadClasses(
      const store::NodeTypeEntry& nodes);
  absl::Status ScanLists(const store::EdgeTypeEntry& edges, Counts& counts);
  /// Adds the edges into one node.
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
