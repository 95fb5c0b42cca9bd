#ifndef HEARTH_ENGINE_INGEST_SOURCE_CSC_EDGES_H_
#define HEARTH_ENGINE_INGEST_SOURCE_CSC_EDGES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"

namespace hearth::ingest {

/// The edges of a topology in CSC, destination after destination, to be read
/// from the first to the last, each time. INVALID_ARGUMENT, here or when they
/// are read, if indptr does not begin with 0, descends, or does not end with
/// the number of edges, and for ids out of range, naming the position.
/// REQUIRES: CheckCscHeaders.
absl::StatusOr<std::unique_ptr<EdgeSource>> NewCscEdgeSource(
    std::unique_ptr<ArrayReader> indptr, std::unique_ptr<ArrayReader> indices,
    const EdgeEnds& ends);

/// The same of arrays that outlive it and whose source ids are in range: what
/// is wrong with indptr is found when edges are read.
std::unique_ptr<EdgeSource> NewCscEdgeSource(ArrayReader& indptr,
                                             ArrayReader& indices);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_CSC_EDGES_H_
