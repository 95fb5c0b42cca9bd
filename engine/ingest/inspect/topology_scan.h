#ifndef HEARTH_ENGINE_INGEST_INSPECT_TOPOLOGY_SCAN_H_
#define HEARTH_ENGINE_INGEST_INSPECT_TOPOLOGY_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

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
