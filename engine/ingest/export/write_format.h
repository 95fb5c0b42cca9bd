#ifndef HEARTH_ENGINE_INGEST_EXPORT_WRITE_FORMAT_H_
#define HEARTH_ENGINE_INGEST_EXPORT_WRITE_FORMAT_H_

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// The folder that a graph is written to, and its format.
struct WriteFormatOptions {
  /// A folder: must not exist, its parent must; appears whole or not at all.
  std::string destination;
  /// The name of a format that has a writer. Default, empty: numpy for a graph
  /// of one node and one edge type, else graphbolt.
  std::string format;
  /// Upper bound for the buffers; at least 1 MiB.
  uint64_t memory_limit_bytes = uint64_t{1} << 28;
};

/// Writes a graph as a folder in a format; an edge list is the file edges.txt
/// in it. The headers of the writers say what their formats hold; ids that the
/// nodes were relabeled from lie beside, see id_output.h. Scratch files lie in
/// `destination`.scratch.tmp, which is removed at the end, as it is if it was
/// left over. INVALID_ARGUMENT, naming the formats that can be written, for one
/// without a writer, and, naming the format, for a graph that it cannot hold;
/// ALREADY_EXISTS if something is at `destination`; RESOURCE_EXHAUSTED, before
/// anything is written, if the disk has no room; CANCELLED; and errors of the
/// source.
absl::Status WriteFormat(io::FileSystem& files,
                         const WriteFormatOptions& options, OpenSource open,
                         const ImportProgress& progress, std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_WRITE_FORMAT_H_
