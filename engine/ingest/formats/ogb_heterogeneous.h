#ifndef HEARTH_ENGINE_INGEST_FORMATS_OGB_HETEROGENEOUS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_OGB_HETEROGENEOUS_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// The nodes and edges of an OGB graph of several types, in CSV files in the
/// folder `raw`: num-node-dict, triplet-type-list, relations/S___R___D/edge,
/// node-feat/TYPE/node-feat, node-label/TYPE/node-label, nodetype-has-label.
/// Edge types are called "S:R:D". Errors as OpenOgb's.
absl::StatusOr<SourceGraph> OpenOgbHeterogeneous(ImportContext& context,
                                                 const std::string& raw);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_OGB_HETEROGENEOUS_H_
