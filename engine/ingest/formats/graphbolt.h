#ifndef HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_H_
#define HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// GraphBolt's OnDiskDataset: metadata.yaml, with the edges (CSV or numpy),
/// features and sets that it names; or GraphBolt's own conversion of such a
/// folder, in preprocessed/, if the raw edges are gone. Node types come in the
/// order of their names, as in GraphBolt. OpenGraphBoltNodes says which
/// features, labels and sets are read.

/// Reason why `source` looks like an OnDiskDataset; empty if it does not.
absl::StatusOr<std::string> RecognizeGraphBolt(io::FileSystem& files,
                                               const std::string& source);

/// Opens an OnDiskDataset; `source` may also be its folder preprocessed.
/// INVALID_ARGUMENT, or DATA_LOSS for a truncated file, naming the file.
absl::StatusOr<SourceGraph> OpenGraphBolt(ImportContext& context,
                                          const std::string& source,
                                          const GraphBoltOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_H_
