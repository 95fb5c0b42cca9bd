#ifndef HEARTH_ENGINE_INGEST_IMPORT_EDGE_IMPORT_H_
#define HEARTH_ENGINE_INGEST_IMPORT_EDGE_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/array_writer.h"
#include "engine/store/manifest.h"

/// Import of edges: their changes (reverse edges, duplicates, self loops), and
/// the reverse types of edges between two node types.

namespace hearth::ingest {

/// Replaces the edges of each type that joins a node type with itself by the
/// list that `transforms` need, with reverse edges if asked for.
/// (ReverseTypesOf has the reverse edges of other types.) INVALID_ARGUMENT,
/// naming `source`, if duplicates or self loops are to change but no edge type
/// joins a node type with itself, or for an indptr that does not span the
/// edges. REQUIRES: CheckHeaders.
absl::Status PrepareEdges(SourceGraph& graph, const EdgeTransforms& transforms,
                          const std::string& source);

struct ImportedEdges {
  CscArrays arrays;
  /// Changes that were made to the edges, in words.
  std::vector<std::string> transforms;
};

/// Writes the topology of one edge type. REQUIRES: PrepareEdges with the same
/// transforms.
absl::StatusOr<ImportedEdges> ImportEdges(ImportContext& context,
                                          SourceEdges& edges,
                                          const EdgeEnds& ends,
                                          const EdgeTransforms& transforms,
                                          const store::ArrayPlace& place);

/// An edge type that an import adds: another type, reversed.
struct ReverseType {
  /// Index of the other type among the graph's edge types.
  size_t edge_type = 0;
  /// "paper:rev_writes:author" for "author:writes:paper".
  std::string name;
};

/// Reverse types of all edge types that join two node types, named as PyG's
/// ToUndirected does. Leaves out types whose reverse the graph already has: a
/// type of that name, or the type that it is itself the reverse of.
std::vector<ReverseType> ReverseTypesOf(const SourceGraph& graph);

/// Upper bound of the bytes that writing `types` takes, scratch files included.
uint64_t BytesOfReverse(const SourceGraph& graph,
                        const std::vector<ReverseType>& types);

/// Writes the reverse of edges that the import wrote to `folder`; `ends` belong
/// to the edges as they are there. The neighbors of each node are ascending.
/// DATA_LOSS if the files are no longer as written.
absl::StatusOr<CscArrays> ReverseWritten(ImportContext& context,
                                         const std::string& folder,
                                         const store::EdgeTypeEntry& edges,
                                         const EdgeEnds& ends,
                                         const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_EDGE_IMPORT_H_
