#ifndef HEARTH_ENGINE_INGEST_FORMATS_DISKGNN_H_
#define HEARTH_ENGINE_INGEST_FORMATS_DISKGNN_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// The files that DiskGNN reads: features.bin without a header, conf.json with
/// its shape and type, graph.pth with GraphBolt's graph, labels.pth,
/// split_idx.pth. Homogeneous: of heterographs DiskGNN writes no graph.

/// Why `source` looks like one; empty if it does not.
absl::StatusOr<std::string> RecognizeDiskGnn(io::FileSystem& files,
                                             const std::string& source);

/// INVALID_ARGUMENT, or DATA_LOSS for a truncated file, naming the file.
absl::StatusOr<SourceGraph> OpenDiskGnn(ImportContext& context,
                                        const std::string& source);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_DISKGNN_H_
