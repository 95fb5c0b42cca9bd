#ifndef HEARTH_ENGINE_STORE_LAYOUT_WRITER_EDGE_LIST_WRITER_H_
#define HEARTH_ENGINE_STORE_LAYOUT_WRITER_EDGE_LIST_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "engine/store/import/import_context.h"
#include "engine/store/import/source_graph.h"

namespace hearth::store {

/// Writes a folder with edges.txt, or edges.txt.gz if `compressed`: a line
/// "source<tab>destination" for each edge, behind a comment that tells their
/// numbers, as SNAP's files have. Features, labels and split have no place in
/// it. INVALID_ARGUMENT for a graph of several types; otherwise errors as
/// LayoutFolder and the source.
absl::Status WriteEdgeList(ImportContext& context, SourceGraph& graph,
                           bool compressed, const std::string& destination);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_LAYOUT_WRITER_EDGE_LIST_WRITER_H_
