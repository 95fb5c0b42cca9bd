#ifndef HEARTH_ENGINE_INGEST_FORMATS_FUSED_CSC_H_
#define HEARTH_ENGINE_INGEST_FORMATS_FUSED_CSC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

/// The graph of GraphBolt in a file of torch.save.

namespace hearth::ingest {

/// GraphBolt's FusedCSCSamplingGraph, as torch.save writes it (see TorchFile):
/// the edges of all types in one CSC. The nodes of a type have consecutive ids.
struct FusedCsc {
  std::string path;
  std::unique_ptr<ArrayReader> indptr;
  std::unique_ptr<ArrayReader> indices;
  /// Names of the types of a heterograph, by type id; these and the arrays
  /// below are empty or null in a homogeneous graph.
  std::vector<std::string> node_types;
  std::vector<std::string> edge_types;
  /// Node type t has ids node_type_offset[t] .. node_type_offset[t + 1] - 1.
  std::vector<int64_t> node_type_offset;
  /// Edge type of each edge, [num_edges].
  std::unique_ptr<ArrayReader> type_per_edge;
  /// Names of further data about single nodes or edges.
  std::vector<std::string> attributes;

  bool is_heterogeneous() const { return type_per_edge != nullptr; }
  int64_t num_nodes() const { return indptr->header().shape[0] - 1; }
};

/// Opens the graph in a file, reading only types and shapes. INVALID_ARGUMENT
/// or DATA_LOSS, naming the file, if it holds anything else.
absl::StatusOr<FusedCsc> OpenFusedCsc(io::FileSystem& files,
                                      const std::string& path);

/// Nodes of the graph, with numbers of nodes, in the order of their ids.
std::vector<SourceNodes> NodesOf(const FusedCsc& graph);

/// Edges of the graph. Edges of a heterograph are written to scratch files, one
/// per type, with ids counted within each node type; types for which a quarter
/// of the memory limit has no buffer of 256 KiB each take further passes over
/// the graph. INVALID_ARGUMENT, naming the first edge whose ends do not have
/// the node types of its edge type.
absl::StatusOr<std::vector<SourceEdges>> EdgesOf(ImportContext& context,
                                                 FusedCsc graph);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_FUSED_CSC_H_
