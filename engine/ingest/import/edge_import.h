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

namespace hearth::ingest {

/// Makes edge lists of what `transforms` are to be applied to, reverse edges
/// included: the edge types that join a node type with itself. (The others get
/// reverse_types.h.) INVALID_ARGUMENT, naming `source`, if duplicates or self
/// loops are to change and there is no such edge type, or for an indptr that
/// does not span the edges.
/// REQUIRES: CheckHeaders.
absl::Status PrepareEdges(SourceGraph& graph, const EdgeTransforms& transforms,
                          const std::string& source);

struct ImportedEdges {
  CscArrays arrays;
  /// The changes that were made, in words.
  std::vector<std::string> transforms;
};

/// Writes a topology. REQUIRES: PrepareEdges with the same transforms.
absl::StatusOr<ImportedEdges> ImportEdges(ImportContext& context,
                                          SourceEdges& edges,
                                          const EdgeEnds& ends,
                                          const EdgeTransforms& transforms,
                                          const store::ArrayPlace& place);

/// A type of edges that an import adds: those of another type, reversed.
struct ReverseType {
  /// The other type, by its place among the graph's.
  size_t edge_type = 0;
  /// "paper:rev_writes:author" of "author:writes:paper".
  std::string name;
};

/// The reverse types of all edge types that join two node types, named as PyG's
/// ToUndirected does; but of none whose reverse the graph has: a type of that
/// name, or the one that it is the reverse of.
std::vector<ReverseType> ReverseTypesOf(const SourceGraph& graph);

/// Upper bound for the bytes that adding the types writes, scratch included.
uint64_t BytesOfReverse(const SourceGraph& graph,
                        const std::vector<ReverseType>& types);

/// Writes the reverse of edges that the import wrote to `folder`; `ends` are
/// those of the edges. Neighbors of a node are ascending. DATA_LOSS if the
/// files are no longer as they were written.
absl::StatusOr<CscArrays> ReverseWritten(ImportContext& context,
                                         const std::string& folder,
                                         const store::EdgeTypeEntry& edges,
                                         const EdgeEnds& ends,
                                         const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_EDGE_IMPORT_H_
