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

namespace hearth::ingest {

/// GraphBolt's FusedCSCSamplingGraph, as torch.save writes it (torch_file.h
/// tells how): the edges of all types in one CSC. The nodes of a type have
/// consecutive ids.
struct FusedCsc {
  std::string path;
  std::unique_ptr<ArrayReader> indptr;
  std::unique_ptr<ArrayReader> indices;
  /// Types of a heterograph; empty or null in a homogeneous one. Names by id.
  std::vector<std::string> node_types;
  std::vector<std::string> edge_types;
  /// Ids of a type are node_type_offset[type] .. node_type_offset[type+1] - 1.
  std::vector<int64_t> node_type_offset;
  /// [num_edges].
  std::unique_ptr<ArrayReader> type_per_edge;
  /// Names of what it holds about single nodes or edges.
  std::vector<std::string> attributes;

  bool is_heterogeneous() const { return type_per_edge != nullptr; }
  int64_t num_nodes() const { return indptr->header().shape[0] - 1; }
};

/// Opens the graph in a file. Nothing but types and shapes is looked at.
/// INVALID_ARGUMENT or DATA_LOSS, naming the file, for anything else.
absl::StatusOr<FusedCsc> OpenFusedCsc(io::FileSystem& files,
                                      const std::string& path);

/// The nodes of the graph and their numbers, in the order of their ids.
std::vector<SourceNodes> NodesOf(const FusedCsc& graph);

/// The graph's edges. Those of a heterograph are written to scratch files, one
/// for each type, with ids counted within the types of their ends; the graph is
/// read once for every 256 KiB * number of types that a quarter of the memory
/// limit does not hold. INVALID_ARGUMENT naming the first edge whose ends are
/// not of the types that its own type says.
absl::StatusOr<std::vector<SourceEdges>> EdgesOf(ImportContext& context,
                                                 FusedCsc graph);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_FUSED_CSC_H_
