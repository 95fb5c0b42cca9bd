#ifndef HEARTH_ENGINE_INGEST_IMPORT_EDGE_ADAPTORS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_EDGE_ADAPTORS_H_

#include <memory>

#include "engine/ingest/source/edge_source.h"

namespace hearth::ingest {

/// Each edge, and right after it the same edge reversed: edges 2i and 2i + 1
/// stand for edge i. REQUIRES: both ends are nodes of one type.
std::unique_ptr<EdgeSource> NewEdgesWithReverse(
    std::unique_ptr<EdgeSource> edges);

/// Each edge reversed.
std::unique_ptr<EdgeSource> NewReversedEdges(std::unique_ptr<EdgeSource> edges);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_EDGE_ADAPTORS_H_
