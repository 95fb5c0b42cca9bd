#ifndef HEARTH_ENGINE_INGEST_FORMATS_NODE_NUMBERING_H_
#define HEARTH_ENGINE_INGEST_FORMATS_NODE_NUMBERING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/formats/id_merge.h"
#include "engine/ingest/formats/id_runs.h"
#include "engine/ingest/formats/id_table.h"
#include "engine/ingest/import/edge_spool.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// Edges between numbered nodes, and what the nodes were called.
struct NumberedEdges {
  int64_t num_nodes = 0;
  std::unique_ptr<EdgeSource> edges;
  /// int64 [num_nodes], or uint8 [bytes]: the ids with "\n" between them.
  std::unique_ptr<ArrayReader> ids;
};

/// Numbers the nodes of edges between ids: 0, 1, 2, ... in ascending order of
/// the ids, whatever the memory limit. Edges that come one after another share
/// a table of ids for as long as it fits half of the limit, and are kept with
/// the ids' numbers in it; then the tables' ids are merged. Takes 8 to 16 bytes
/// of scratch an edge, twice, and up to 1 KiB for each id of each table.
/// Single-owner.
class NodeNumbering {
 public:
  enum class IdKind { kNumbers, kText };

  /// `source` is the file that the ids come from, for messages.
  static absl::StatusOr<std::unique_ptr<NodeNumbering>> Create(
      ImportContext& context, IdKind kind, std::string source);

  /// The next edge. REQUIRES: kind is kNumbers.
  absl::Status Add(int64_t source, int64_t destination);

  /// The same of kText, in the order of their bytes. REQUIRES: ids of 1 ..
  /// kMaxIdBytes bytes without line feeds. RESOURCE_EXHAUSTED, with the
  /// numbers, if there are more tables than can be merged at a time.
  absl::Status Add(absl::string_view source, absl::string_view destination);

  int64_t num_edges() const { return local_edges_->num_edges(); }

  /// To be called once.
  absl::StatusOr<NumberedEdges> Finish();

 private:
  NodeNumbering(ImportContext& context, IdKind kind, std::string source)
      : context_(context), kind_(kind), source_(std::move(source)) {}

  absl::Status EndTable();
  absl::Status CheckSpace() const;
  absl::StatusOr<NodeMaps> Merge(NumberedEdges& numbered);
  absl::StatusOr<std::unique_ptr<EdgeSource>> Renumber(const NodeMaps& maps);

  ImportContext& context_;
  const IdKind kind_;
  const std::string source_;
  std::unique_ptr<IdTable> table_;
  std::unique_ptr<IdRunWriter> runs_;
  /// Ends are numbers in the table of the edge's time.
  std::unique_ptr<EdgeSpool> local_edges_;
  /// How many edges there were when each table ended.
  std::vector<int64_t> edge_ends_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_NODE_NUMBERING_H_
