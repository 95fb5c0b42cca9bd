#ifndef HEARTH_ENGINE_INGEST_FORMATS_IGB_H_
#define HEARTH_ENGINE_INGEST_FORMATS_IGB_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// IGB and IGBH, the folder of a size or processed/ in it: for each type of
/// nodes a folder with node_feat.npy, of 1,024 columns; for each type of edges
/// a folder such as paper__cites__paper with edge_index.npy of shape (E, 2);
/// node_label_19.npy and node_label_2K.npy in paper/. Of the large sizes some
/// .npy files are float32 without a header. A graph of papers alone is
/// homogeneous.

/// Why `source` looks like one; empty if it does not.
absl::StatusOr<std::string> RecognizeIgb(io::FileSystem& files,
                                         const std::string& source);

/// INVALID_ARGUMENT, or DATA_LOSS for a truncated file, naming the file.
absl::StatusOr<SourceGraph> OpenIgb(ImportContext& context,
                                    const std::string& source,
                                    const IgbOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_IGB_H_
