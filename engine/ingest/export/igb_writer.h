#ifndef HEARTH_ENGINE_INGEST_EXPORT_IGB_WRITER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_IGB_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes the folder of a size of IGB, its nodes as papers: processed/ with
/// paper/node_feat.npy (float32), paper/node_label_19.npy (int64, -1: none), or
/// node_label_2K.npy for more than 19 classes, and
/// paper__cites__paper/edge_index.npy (int64, (E, 2)). A split has no place in
/// it. INVALID_ARGUMENT for a graph of several types, without features or
/// labels, or of more than 2,983 classes; otherwise errors as OutputFolder and
/// the source.
absl::Status WriteIgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_IGB_WRITER_H_
