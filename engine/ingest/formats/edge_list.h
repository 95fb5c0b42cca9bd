#ifndef HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_H_
#define HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// A text file, plain or gzip, as SNAP publishes them: two ids a line, source
/// first, with blanks, tabs or a comma between them. Lines that begin with '#'
/// or '%' are comments. The graph has neither features nor labels.

/// Why `source` looks like one; empty if it does not.
absl::StatusOr<std::string> RecognizeEdgeList(io::FileSystem& files,
                                              const std::string& source);

/// Reads the whole file. INVALID_ARGUMENT naming file and line, DATA_LOSS for a
/// truncated gzip file, RESOURCE_EXHAUSTED where disk or memory do not suffice.
/// Without relabel, ids are the nodes' numbers, and INVALID_ARGUMENT says so if
/// most of them would be unused. With it, ids are numbers (int64, without "+"
/// and leading zeros) if all of them are, or else text of up to 1 KiB without
/// blanks and commas, ordered by its bytes.
absl::StatusOr<SourceGraph> OpenEdgeList(ImportContext& context,
                                         const std::string& source,
                                         const EdgeListOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_H_
