#ifndef HEARTH_ENGINE_INGEST_EXPORT_OGB_WRITER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_OGB_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes a dataset of OGB's node property prediction, compressed CSV files: in
/// raw/ edge, node-feat (the shortest digits that give the same float32),
/// node-label (-1: none), num-node-list and num-edge-list; in split/given/
/// train, valid and test. INVALID_ARGUMENT for a graph of several types or
/// without edges, labels or split, and for a destination named as one that ogb
/// adds inverse edges to; otherwise errors as OutputFolder and the source.
absl::Status WriteOgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_OGB_WRITER_H_
