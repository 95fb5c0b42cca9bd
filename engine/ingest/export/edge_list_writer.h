#ifndef HEARTH_ENGINE_INGEST_EXPORT_EDGE_LIST_WRITER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_EDGE_LIST_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes a folder with edges.txt, or edges.txt.gz if `compressed`: a line
/// "source<tab>destination" for each edge, behind a comment that tells their
/// numbers, as SNAP's files have. Features, labels and split have no place in
/// it. INVALID_ARGUMENT for a graph of several types; otherwise errors as
/// OutputFolder and the source.
absl::Status WriteEdgeList(ImportContext& context, SourceGraph& graph,
                           bool compressed, const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_EDGE_LIST_WRITER_H_
