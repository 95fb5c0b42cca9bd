#ifndef HEARTH_ENGINE_INGEST_EXPORT_EDGE_LIST_WRITER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_EDGE_LIST_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes a folder with edges.txt: a comment that tells the numbers of nodes
/// and edges, as SNAP's files have it, then a line "source<tab>destination" for
/// each edge. Features, labels and split have no place in it. INVALID_ARGUMENT
/// for a graph of several types; otherwise errors as OutputFolder and the
/// source.
absl::Status WriteEdgeList(ImportContext& context, SourceGraph& graph,
                           const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_EDGE_LIST_WRITER_H_
