#ifndef HEARTH_ENGINE_INGEST_IMPORT_EDGE_ADAPTORS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_EDGE_ADAPTORS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"

namespace hearth::ingest {

/// Each edge, and right after it the same edge reversed: edges 2i and 2i + 1
/// stand for edge i. REQUIRES: both ends are nodes of one type.
std::unique_ptr<EdgeSource> NewEdgesWithReverse(
    std::unique_ptr<EdgeSource> edges);

/// Each edge reversed.
std::unique_ptr<EdgeSource> NewReversedEdges(std::unique_ptr<EdgeSource> edges);

/// The edges of a topology in CSC, destination after destination, to be read
/// from the first to the last, each time. INVALID_ARGUMENT, here or when they
/// are read, if indptr does not begin with 0, descends, or does not end with
/// the number of edges, and for ids out of range, naming the position.
/// REQUIRES: CheckCscHeaders.
absl::StatusOr<std::unique_ptr<EdgeSource>> NewCscEdgeSource(
    std::unique_ptr<ArrayReader> indptr, std::unique_ptr<ArrayReader> indices,
    const EdgeEnds& ends);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_EDGE_ADAPTORS_H_
