#ifndef HEARTH_ENGINE_INGEST_EXPORT_GRAPHBOLT_WRITER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_GRAPHBOLT_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes a GraphBolt OnDiskDataset, not preprocessed: metadata.yaml;
/// edges/*.npy (int64, (2, E)); data/*.npy for features "feat", or .pt for
/// bfloat16, which numpy lacks; set/*.npy with seeds and labels (int64) of each
/// part; and all labels as a feature "label", since
/// the sets have those of their nodes alone. Several types are written as
/// heterographs are: an edge type that is not named
/// "source:relation:destination" already gets its ends' names.  Errors as
/// OutputFolder and the source; INVALID_ARGUMENT for a graph without any part
/// of a split.
absl::Status WriteGraphBolt(ImportContext& context, SourceGraph& graph,
                            const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_GRAPHBOLT_WRITER_H_
