#ifndef HEARTH_ENGINE_INGEST_EXPORT_CSC_WRITERS_H_
#define HEARTH_ENGINE_INGEST_EXPORT_CSC_WRITERS_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Folders of raw arrays with the topology in CSC. Both need a graph of one
/// type with features, labels and split: INVALID_ARGUMENT otherwise. Edges that
/// are a list are sorted first, in the context's scratch folder; afterwards
/// `graph` has them in CSC. Other errors as OutputFolder, BuildCsc and the
/// source.

/// For Ginex and GNNDrive: indptr.dat and indices.dat (int64), features.dat
/// (float32), labels.dat (float32, (N, 1), NaN: none), conf.json,
/// split_idx.pth.
absl::Status WriteGinex(ImportContext& context, SourceGraph& graph,
                        const std::string& destination);

/// For DiskGNN: features.bin (in the features' own type), conf.json, graph.pth
/// (GraphBolt's FusedCSCSamplingGraph), labels.pth (float32 (N), NaN: none),
/// split_idx.pth.
absl::Status WriteDiskGnn(ImportContext& context, SourceGraph& graph,
                          const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_CSC_WRITERS_H_
