#ifndef HEARTH_ENGINE_INGEST_IMPORT_EDGE_IMPORT_H_
#define HEARTH_ENGINE_INGEST_IMPORT_EDGE_IMPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/edge_transforms.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/array_writer.h"

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_EDGE_IMPORT_H_
