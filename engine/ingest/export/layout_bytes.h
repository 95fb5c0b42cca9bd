#ifndef HEARTH_ENGINE_INGEST_EXPORT_LAYOUT_BYTES_H_
#define HEARTH_ENGINE_INGEST_EXPORT_LAYOUT_BYTES_H_

#include <cstdint>

#include "engine/ingest/formats/layout.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Bytes that writing a graph in a layout takes on the disk, scratch included,
/// told from its headers: never less, but for OGB's compressed text, which is
/// taken to shrink to the half. REQUIRES: CheckHeaders.
uint64_t BytesToWrite(const SourceGraph& graph, Layout layout);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_LAYOUT_BYTES_H_
