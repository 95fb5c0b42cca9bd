#ifndef HEARTH_ENGINE_INGEST_FORMATS_IMPORT_DATASET_H_
#define HEARTH_ENGINE_INGEST_FORMATS_IMPORT_DATASET_H_

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// The format of a source, and what there is to say about it.
struct FormatChoice {
  /// A name of Formats(); empty = the one that the source looks like.
  std::string format;
  FormatOptions options = {};
};

/// Imports the graph at options.source. If its format was recognized, the
/// manifest's first transform says which it is and why. See ImportGraph and
/// OpenFormat for errors.
absl::StatusOr<ImportResult> ImportDataset(io::FileSystem& files,
                                           const FormatChoice& choice,
                                           const ImportOptions& options,
                                           const ImportProgress& progress,
                                           std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_IMPORT_DATASET_H_
