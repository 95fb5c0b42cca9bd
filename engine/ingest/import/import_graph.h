#ifndef HEARTH_ENGINE_INGEST_IMPORT_IMPORT_GRAPH_H_
#define HEARTH_ENGINE_INGEST_IMPORT_IMPORT_GRAPH_H_

#include <cstdint>
#include <stop_token>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// The outcome of an import.
struct ImportResult {
  store::Manifest manifest;
  uint64_t bytes_written = 0;
};

/// Opens the graph in its source. May use the context's scratch folder for data
/// that can be read only once, such as text. Its errors become errors of the
/// import.
using OpenSource =
    absl::FunctionRef<absl::StatusOr<SourceGraph>(ImportContext& context)>;

/// Makes a dataset of a graph. Every value is checked: INVALID_ARGUMENT (or
/// DATA_LOSS for truncated files) names the file, the first wrong position and
/// the problem. Writes into the unfinished folder, synced, then renames it:
/// after any error, cancellation (CANCELLED) or kill nothing is at
/// `destination`. RESOURCE_EXHAUSTED, with the bytes needed, if disk or memory
/// limit do not suffice; ALREADY_EXISTS if something is at `destination`.
absl::StatusOr<ImportResult> ImportGraph(io::FileSystem& files,
                                         const ImportOptions& options,
                                         OpenSource open,
                                         const ImportProgress& progress,
                                         std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_IMPORT_GRAPH_H_
