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

namespace hearth::ingest {

/// Nodes of one type. Arrays that are null are absent.
struct SourceNodes {
  /// "node" in a homogeneous graph.
  std::string type = "node";
  int64_t num_nodes = 0;
  /// [num_nodes, dim] floats.
  std::unique_ptr<ArrayReader> features;
  /// [num_nodes] or [num_nodes, columns]; import/label_import.h says what they
  /// may be.
  std::unique_ptr<ArrayReader> labels;
  /// The kind of the labels; nullopt = told from their shape.
  std::optional<store::LabelKind> label_kind = std::nullopt;
  /// [number of nodes in the part] ids: train, valid, test.
  std::array<std::unique_ptr<ArrayReader>, 3> split;
  /// Parts that are [num_nodes] masks instead: 1 or true for each node in it.
  std::array<bool, 3> split_is_mask = {};
  /// [num_nodes] int64: what the source calls the nodes; or else text, uint8
  /// [bytes]: the ids with "\n" between them.
  std::unique_ptr<ArrayReader> ids;
  std::unique_ptr<ArrayReader> id_text;
};

/// Edges of one type: either a list, or compressed by destination.
struct SourceEdges {
  /// "edge" in a homogeneous graph.
  std::string type = "edge";
  std::string source_type = "node";
  std::string destination_type = "node";
  std::unique_ptr<EdgeSource> edges;
  /// [number of destinations + 1].
  std::unique_ptr<ArrayReader> indptr;
  /// [num_edges] sources.
  std::unique_ptr<ArrayReader> indices;

  int64_t num_edges() const {
    return edges != nullptr ? edges->num_edges() : indices->header().shape[0];
  }
};

/// A graph as a format finds it: open arrays, of which nothing but the headers
/// has been looked at. ImportGraph checks every value.
struct SourceGraph {
  std::vector<SourceNodes> nodes;
  std::vector<SourceEdges> edges;
  /// Decisions that opening the source took, in words, for the manifest.
  /// ImportGraph adds its own.
  std::vector<std::string> transforms;
  /// What the source has that the dataset will not, and what looks like a
  /// mistake, in sentences. ImportGraph puts them first among the warnings of
  /// the dataset's statistics, which the log and `dataset show` tell.
  std::vector<std::string> warnings;

  /// The nodes of that type; null if there are none.
  const SourceNodes* FindNodes(const std::string& type) const;

  /// Numbers of nodes at either end of the edges. REQUIRES: CheckTypes.
  EdgeEnds EndsOf(const SourceEdges& edges) const;

  /// INVALID_ARGUMENT for types that are named twice, nameless or not there,
  /// and for a graph without node or edge types; `source` is for messages.
  absl::Status CheckTypes(const std::string& source) const;

  /// Leaves out node types without nodes, with the edge types that they are an
  /// end of, and tells so in `warnings`. INVALID_ARGUMENT if such an edge type
  /// has edges, or nothing is left. REQUIRES: CheckTypes.
  absl::Status LeaveOutEmptyTypes(const std::string& source);

  /// Takes features of one dimension as matrices of one column, and says so in
  /// `transforms`.
  void TakeFeaturesAsColumns();

  /// Takes features that are uint16 as bfloat16, and says so in `transforms`.
  void TakeFeaturesAsBFloat16();
};

/// Gives the prefixes that the names of each type's files begin with.
/// Single-owner.
class FilePrefixes {
 public:
  /// The type's name, with what no file name should have replaced; unlike all
  /// before.
  std::string New(const std::string& type);

 private:
  std::set<std::string> taken_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_SOURCE_GRAPH_H_
