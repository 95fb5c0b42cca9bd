#ifndef HEARTH_ENGINE_INGEST_SOURCE_SOURCE_GRAPH_H_
#define HEARTH_ENGINE_INGEST_SOURCE_SOURCE_GRAPH_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/store/labels.h"

/// A graph before its import: node and edge types with open arrays.

namespace hearth::ingest {

/// Nodes of one type. Arrays that are null are absent.
struct SourceNodes {
  /// Name of the type; "node" in a homogeneous graph.
  std::string type = "node";
  int64_t num_nodes = 0;
  /// Features, [num_nodes, dim].
  std::unique_ptr<ArrayReader> features;
  /// Labels, [num_nodes] or [num_nodes, columns]; import/label_import.h has the
  /// values that each kind allows.
  std::unique_ptr<ArrayReader> labels;
  /// Kind of the labels; nullopt = told from their shape.
  std::optional<store::LabelKind> label_kind = std::nullopt;
  /// Node ids of the training, validation and test part, each [number of nodes
  /// in the part].
  std::array<std::unique_ptr<ArrayReader>, 3> split;
  /// Whether a part is a [num_nodes] mask instead: 1 or true for each node in
  /// the part.
  std::array<bool, 3> split_is_mask = {};
  /// Ids that the source gives the nodes, at most one of: `ids`, [num_nodes]
  /// int64; `id_text`, [bytes] uint8, with "\n"
  /// between ids.
  std::unique_ptr<ArrayReader> ids;
  std::unique_ptr<ArrayReader> id_text;
};

/// Edges of one type: either a list (`edges`), or compressed by destination
/// (`indptr` and `indices`).
struct SourceEdges {
  /// Name of the type; "edge" in a homogeneous graph.
  std::string type = "edge";
  std::string source_type = "node";
  std::string destination_type = "node";
  std::unique_ptr<EdgeSource> edges;
  /// Offsets into `indices`, [number of destinations + 1].
  std::unique_ptr<ArrayReader> indptr;
  /// Sources of the edges, [num_edges].
  std::unique_ptr<ArrayReader> indices;

  int64_t num_edges() const {
    return edges != nullptr ? edges->num_edges() : indices->header().shape[0];
  }
};

/// A graph as a reader of a format opens it: arrays of which only the headers
/// have been read. ImportGraph checks every value.
struct SourceGraph {
  std::vector<SourceNodes> nodes;
  std::vector<SourceEdges> edges;
  /// Decisions taken when the source was opened, in words, for the manifest.
  /// ImportGraph adds its own.
  std::vector<std::string> transforms;
  /// Parts of the source that the dataset will not have, and likely mistakes,
  /// in sentences. They come first among the warnings of the dataset's
  /// statistics, which the log and `hearth dataset show` print.
  std::vector<std::string> warnings;

  /// The nodes of type `type`; null if there is no such type.
  const SourceNodes* FindNodes(const std::string& type) const;

  /// Numbers of nodes at both ends of `edges`. REQUIRES: CheckTypes.
  EdgeEnds EndsOf(const SourceEdges& edges) const;

  /// INVALID_ARGUMENT for types that are named twice, nameless or unknown, and
  /// for a graph without node or edge types. `source` names the graph in
  /// messages.
  absl::Status CheckTypes(const std::string& source) const;

  /// Removes node types without nodes, with all edge types at them, and adds a
  /// warning for each. INVALID_ARGUMENT if such an edge type has edges, or if
  /// no type is left. REQUIRES: CheckTypes.
  absl::Status LeaveOutEmptyTypes(const std::string& source);

  /// Turns features of one dimension into matrices of one column, and notes it
  /// in `transforms`.
  void TakeFeaturesAsColumns();

  /// Reads features of type uint16 as bfloat16, and notes it in `transforms`.
  void TakeFeaturesAsBFloat16();
};

/// Makes the prefixes of file names for the types of a graph. Single-owner.
class FilePrefixes {
 public:
  /// The name of `type` with all characters replaced that are unfit for file
  /// names; different from all prefixes made before.
  std::string New(const std::string& type);

 private:
  std::set<std::string> taken_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_SOURCE_GRAPH_H_
