#ifndef HEARTH_ENGINE_INGEST_IMPORT_SOURCE_CHECKS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_SOURCE_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// INVALID_ARGUMENT or DATA_LOSS, naming the file, for headers that do not fit
/// each other, or features that cannot be used `in_place` but shall be.
/// REQUIRES: SourceGraph::CheckTypes.
absl::Status CheckHeaders(const SourceGraph& graph, bool in_place);

/// The bytes that features take, checksums included.
uint64_t FeatureBytes(int64_t num_rows, int64_t row_bytes);

/// Upper bound for the bytes that a list of edges takes as a topology, and as
/// scratch while it is sorted.
uint64_t BytesToSort(int64_t num_edges, const EdgeEnds& ends);

/// Upper bound for the bytes that importing the graph writes, scratch included.
/// REQUIRES: CheckHeaders.
uint64_t BytesToImport(const SourceGraph& graph, bool in_place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_SOURCE_CHECKS_H_
