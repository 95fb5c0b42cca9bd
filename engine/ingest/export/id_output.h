#ifndef HEARTH_ENGINE_INGEST_EXPORT_ID_OUTPUT_H_
#define HEARTH_ENGINE_INGEST_EXPORT_ID_OUTPUT_H_

#include "absl/status/status.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes the ids that the source gave its nodes, for which no format has a
/// place, beside the format's files: for each type with ids TYPE.ids.npy
/// (int64), or TYPE.ids.txt where they are text, one a line. Line or element i
/// is node i.
absl::Status WriteNodeIds(ImportContext& context, SourceGraph& graph,
                          OutputFolder& folder);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_ID_OUTPUT_H_
