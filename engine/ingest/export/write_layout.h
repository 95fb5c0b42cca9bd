#ifndef HEARTH_ENGINE_INGEST_EXPORT_WRITE_LAYOUT_H_
#define HEARTH_ENGINE_INGEST_EXPORT_WRITE_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "engine/ingest/formats/layout.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Where a graph goes, and how it is laid out there.
struct WriteLayoutOptions {
  /// A folder: must not exist, its parent must; appears whole or not at all.
  std::string destination;
  /// Default: numpy for a graph of one node and one edge type, else GraphBolt.
  std::optional<Layout> layout;
  /// Upper bound for the buffers; at least 1 MiB.
  uint64_t memory_limit_bytes = uint64_t{1} << 28;
};

/// Writes a graph as a folder in a layout; of an edge list, the file edges.txt
/// in it. What the layouts hold, see the headers of their writers; ids that the
/// nodes were relabeled from lie beside, see id_output.h. Scratch
/// files lie in `destination`.scratch.tmp, which is removed at the end, as it
/// is if it was left over. INVALID_ARGUMENT, naming the layout, for a graph
/// that it cannot hold; ALREADY_EXISTS if something is at `destination`;
/// RESOURCE_EXHAUSTED, before anything is written, if the disk has no room;
/// CANCELLED; and errors of the source.
absl::Status WriteLayout(io::FileSystem& files,
                         const WriteLayoutOptions& options, OpenSource open,
                         const ImportProgress& progress, std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_WRITE_LAYOUT_H_
