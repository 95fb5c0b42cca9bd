#ifndef HEARTH_ENGINE_INGEST_EXPORT_NUMPY_WRITER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_NUMPY_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Writes a plain numpy folder: node_feat.npy in the features' own type
/// (bfloat16, which numpy lacks, as uint16), node_label.npy (int64, -1:
/// none; of multi-label and targets float32 (N, C), a row of NaN: none, of
/// multi-label NaN: unknown), {train,valid,test}_idx.npy (int64), valid and
/// test where there are such nodes, and edge_index.npy (int64, (2, E)), or
/// indptr.npy and indices.npy if the edges are so. INVALID_ARGUMENT for a graph
/// of several types or without one of the arrays; otherwise errors as
/// OutputFolder and the source.
absl::Status WriteNumpyFolder(ImportContext& context, SourceGraph& graph,
                              const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_NUMPY_WRITER_H_
