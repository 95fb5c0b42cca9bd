#ifndef HEARTH_ENGINE_INGEST_FORMATS_CSV_EDGES_H_
#define HEARTH_ENGINE_INGEST_FORMATS_CSV_EDGES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// Edges of a text, plain or compressed, of a source, a comma and a destination
/// in each line, without a header; brought to a scratch file. INVALID_ARGUMENT
/// naming the first line that is anything else or has an id out of range.
absl::StatusOr<std::unique_ptr<EdgeSource>> ReadCsvEdges(
    ImportContext& context, const std::string& path, const EdgeEnds& ends);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_CSV_EDGES_H_
