#ifndef HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_H_
#define HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// GraphBolt's OnDiskDataset: metadata.yaml and the edges (CSV or numpy),
/// features and sets that it names; or what GraphBolt made of that, in
/// preprocessed/, where the raw edges are no longer there. Types of nodes come
/// in the order of their names, as GraphBolt has them. See graphbolt_nodes.h
/// for what is taken.

/// Why `source` looks like one; empty if it does not.
absl::StatusOr<std::string> RecognizeGraphBolt(io::FileSystem& files,
                                               const std::string& source);

/// `source` may be the folder preprocessed, too. INVALID_ARGUMENT, or
/// DATA_LOSS for a truncated file, naming the file.
absl::StatusOr<SourceGraph> OpenGraphBolt(ImportContext& context,
                                          const std::string& source,
                                          const GraphBoltOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_H_
