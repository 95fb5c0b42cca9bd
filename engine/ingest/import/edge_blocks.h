#ifndef HEARTH_ENGINE_INGEST_IMPORT_EDGE_BLOCKS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_EDGE_BLOCKS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// Calls `visit` with all edges of `edges`, block after block, and advances the
/// context by 16 bytes an edge. Another thread reads and checks ahead: all
/// blocks together take up to an eighth of the memory limit.
absl::Status ForEachEdgeBlock(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_EDGE_BLOCKS_H_
