#ifndef HEARTH_ENGINE_INGEST_FORMATS_TEXT_ARRAYS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_TEXT_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"

/// Numbers in text files, plain or compressed, brought to the import's scratch
/// folder as arrays. Takes memory for little more than one line. Errors are
/// INVALID_ARGUMENT naming file and line, DATA_LOSS for truncated files,
/// RESOURCE_EXHAUSTED if the disk is full.

namespace hearth::ingest {

/// Lines of the file at `path`, of at most `max_line_bytes` each; zstd may take
/// a quarter of the import's memory limit.
absl::StatusOr<std::unique_ptr<TextLines>> OpenTextLines(
    ImportContext& context, const std::string& path,
    size_t max_line_bytes = TextLines::kMaxLineBytes);

/// Calls `visit` at every line that is left of `lines`, in the phase "reading".
absl::Status ForEachLine(
    ImportContext& context, TextLines& lines,
    absl::FunctionRef<absl::Status(const TextLines& line)> visit);

/// The same for all lines of the file at `path`.
absl::Status ForEachLine(
    ImportContext& context, const std::string& path,
    absl::FunctionRef<absl::Status(const TextLines& line)> visit);

/// The number in a file of one line: a count of `least` or more.
absl::StatusOr<int64_t> ReadTextCount(ImportContext& context,
                                      const std::string& path,
                                      int64_t least = 1);

/// float32 (num_rows, columns) from lines of numbers with commas between them;
/// every line has as many as the first.
absl::StatusOr<std::unique_ptr<ArrayReader>> ReadTextFloats(
    ImportContext& context, const std::string& path, int64_t num_rows);

/// Labels, in the form that ReadTextFloats reads: int64 if all of them are
/// whole numbers without point or exponent, otherwise float64.
absl::StatusOr<std::unique_ptr<ArrayReader>> ReadTextLabels(
    ImportContext& context, const std::string& path, int64_t num_rows);

/// int64 (lines,) from one number per line.
absl::StatusOr<std::unique_ptr<ArrayReader>> ReadTextIds(
    ImportContext& context, const std::string& path);

/// `num_edges` edges from lines of two ids with a comma between them, source
/// first.
absl::StatusOr<std::unique_ptr<EdgeSource>> ReadTextEdges(
    ImportContext& context, const std::string& path, const EdgeEnds& ends,
    int64_t num_edges);

/// Edges of a text, plain or compressed, without a header: in each line a
/// source, a comma and a destination; brought to a scratch file.
/// INVALID_ARGUMENT naming the first line that is anything else or has an id
/// out of range.
absl::StatusOr<std::unique_ptr<EdgeSource>> ReadCsvEdges(
    ImportContext& context, const std::string& path, const EdgeEnds& ends);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_TEXT_ARRAYS_H_
