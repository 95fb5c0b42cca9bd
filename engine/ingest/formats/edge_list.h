#ifndef HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_H_
#define HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// A text file, plain or compressed by gzip or zstd, as SNAP publishes them:
/// two ids a line, source first, with blanks, tabs, commas or semicolons
/// between fields; or a sparse matrix in Matrix Market's format. Lines that
/// begin with
/// '#' or '%' are comments, and the first other one may be a header: see
/// edge_list_layout.h. The graph has neither features nor labels.

/// Why `source` looks like one; empty if it is no regular file.
/// INVALID_ARGUMENT or DATA_LOSS, saying what it is, for a file that is none.
absl::StatusOr<std::string> RecognizeEdgeList(io::FileSystem& files,
                                              const std::string& source);

/// Reads the whole file. INVALID_ARGUMENT naming file and line, DATA_LOSS for a
/// truncated file, RESOURCE_EXHAUSTED where disk or memory do not suffice.
/// Without relabel, ids are the nodes' numbers, and INVALID_ARGUMENT says so if
/// most of them would be unused. With it, ids are numbers (int64, without "+"
/// and leading zeros) if all of them are, or else text of up to 1 KiB without
/// blanks and commas, ordered by its bytes. The nodes of a matrix are its rows.
absl::StatusOr<SourceGraph> OpenEdgeList(ImportContext& context,
                                         const std::string& source,
                                         const EdgeListOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_H_
