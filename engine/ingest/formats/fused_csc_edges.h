#ifndef HEARTH_ENGINE_INGEST_FORMATS_FUSED_CSC_EDGES_H_
#define HEARTH_ENGINE_INGEST_FORMATS_FUSED_CSC_EDGES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/fused_csc.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// The graph's edges. Those of a heterograph are written to scratch files, one
/// for each type, with ids counted within the types of their ends; the graph is
/// read once for every 256 KiB * number of types that a quarter of the memory
/// limit does not hold. INVALID_ARGUMENT naming the first edge whose ends are
/// not of the types that its own type says.
absl::StatusOr<std::vector<SourceEdges>> EdgesOf(ImportContext& context,
                                                 FusedCsc graph);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_FUSED_CSC_EDGES_H_
