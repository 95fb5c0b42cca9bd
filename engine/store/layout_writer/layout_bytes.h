#ifndef HEARTH_ENGINE_STORE_LAYOUT_WRITER_LAYOUT_BYTES_H_
#define HEARTH_ENGINE_STORE_LAYOUT_WRITER_LAYOUT_BYTES_H_

#include <cstdint>

#include "engine/store/import/source_graph.h"
#include "engine/store/layout/layout.h"

namespace hearth::store {

/// Bytes that writing a graph in a layout takes on the disk, scratch included,
/// told from its headers: never less, but for OGB's compressed text, which is
/// taken to shrink to the half. REQUIRES: CheckHeaders.
uint64_t BytesToWrite(const SourceGraph& graph, Layout layout);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_LAYOUT_WRITER_LAYOUT_BYTES_H_
