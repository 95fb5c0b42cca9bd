#ifndef HEARTH_ENGINE_INGEST_IMPORT_SOURCE_CHECKS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_SOURCE_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// INVALID_ARGUMENT or DATA_LOSS, naming the file, if headers do not fit each
/// other, or if features cannot be used in place although `in_place` is set.
/// REQUIRES: SourceGraph::CheckTypes.
absl::Status CheckHeaders(const SourceGraph& graph, bool in_place);

/// Bytes of a feature array and its checksums.
uint64_t FeatureBytes(int64_t num_rows, int64_t row_bytes);

/// Upper bound of the bytes of a topology made from a list of edges, and of the
/// scratch file of the sort.
uint64_t BytesToSort(int64_t num_edges, const EdgeEnds& ends);

/// Upper bound of the bytes that importing the graph writes, scratch files
/// included. REQUIRES: CheckHeaders.
uint64_t BytesToImport(const SourceGraph& graph, bool in_place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_SOURCE_CHECKS_H_
