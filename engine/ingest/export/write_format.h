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

/// Where a graph is written, and how.
struct WriteFormatOptions {
  /// Folder: must not exist, its parent must; appears whole or not at all.
  std::string destination;
  /// Name of a format that has a writer. Empty: numpy for a graph of one node
  /// type and one edge type, otherwise graphbolt.
  std::string format;
  /// Upper bound of the buffers; at least 1 MiB.
  uint64_t memory_limit_bytes = uint64_t{1} << 28;
};

/// Writes a graph as a folder in a format; for an edge list the folder has
/// edges.txt. The headers of the writers say what their formats can hold; ids
/// that nodes were relabeled from are written by WriteNodeIds. Scratch files go
/// to `destination`.scratch.tmp, which is removed at the end, and at the start
/// if it was left over. INVALID_ARGUMENT for a format without a writer, naming
/// those that have one, and for a graph that the format cannot hold, naming the
/// format; ALREADY_EXISTS if something is at `destination`; RESOURCE_EXHAUSTED,
/// before anything is written, if the disk is too small; CANCELLED; and errors
/// of the source.
absl::Status WriteFormat(io::FileSystem& files,
                         const WriteFormatOptions& options, OpenSource open,
                         const ImportProgress& progress, std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_WRITE_FORMAT_H_
