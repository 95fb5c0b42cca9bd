#ifndef HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_H_
#define HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Text files with one edge per line, plain or compressed by gzip or zstd, as
/// SNAP publishes them: two ids, source first, and perhaps other fields,
/// separated by blanks, tabs, commas or semicolons; or a sparse matrix in
/// Matrix Market's format. Lines that begin with '#' or '%' are comments, and
/// the first other line may be a header: see edge_list_layout.h. The graph has
/// neither features nor labels.

/// Reason why `source` looks like an edge list; empty if it is no regular file.
/// INVALID_ARGUMENT or DATA_LOSS for a file that is no edge list, saying what
/// it is.
absl::StatusOr<std::string> RecognizeEdgeList(io::FileSystem& files,
                                              const std::string& source);

/// Reads the whole file. INVALID_ARGUMENT naming file and line, DATA_LOSS for a
/// truncated file, RESOURCE_EXHAUSTED if disk or memory do not suffice. Without
/// relabel, ids are the nodes' numbers; INVALID_ARGUMENT if most numbers would
/// be unused. With relabel, ids are numbers (int64, without "+" and leading
/// zeros) if all of them are; otherwise text of up to 1 KiB without blanks and
/// commas, ordered by its bytes. The nodes of a matrix are its rows.
absl::StatusOr<SourceGraph> OpenEdgeList(ImportContext& context,
                                         const std::string& source,
                                         const EdgeListOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_H_
