#ifndef HEARTH_ENGINE_INGEST_INSPECT_GRAPH_SCAN_H_
#define HEARTH_ENGINE_INGEST_INSPECT_GRAPH_SCAN_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/inspect/feature_scan.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// Counts what is in a dataset whose arrays are all in `folder`, reading labels
/// and topology once more, and warns of what looks like a mistake. `features`
/// has what the scan of each node type's features has found. CANCELLED, or
/// DATA_LOSS if an array is not what was written.
absl::StatusOr<DatasetStatistics> ScanGraph(
    ImportContext& context, const std::string& folder,
    const store::Manifest& manifest,
    absl::Span<const std::optional<ScannedFeatures>> features);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_GRAPH_SCAN_H_
