#ifndef HEARTH_ENGINE_INGEST_FORMATS_OGB_BINARY_H_
#define HEARTH_ENGINE_INGEST_FORMATS_OGB_BINARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

inline constexpr char kOgbDataFile[] = "data.npz";

/// The nodes and edges of an OGB graph such as papers100M's: in the folder
/// `raw`, data.npz with num_nodes_list, edge_index of shape (2, E) and perhaps
/// node_feat, and node-label.npz with node_label. Features and labels are read
/// from the archives as the import goes on; edges are unpacked to the scratch
/// folder. Errors as OpenOgb's.
absl::StatusOr<SourceGraph> OpenOgbBinary(ImportContext& context,
                                          const std::string& raw);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_OGB_BINARY_H_
