#ifndef HEARTH_ENGINE_INGEST_FORMATS_EDGE_TYPE_H_
#define HEARTH_ENGINE_INGEST_FORMATS_EDGE_TYPE_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Edges of the type "SOURCE:RELATION:DESTINATION", with `separator` in place
/// of the colons; nothing if `name` is no such type.
std::optional<SourceEdges> EdgesOfType(absl::string_view name,
                                       absl::string_view separator = ":");

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_EDGE_TYPE_H_
