#ifndef HEARTH_ENGINE_INGEST_INSPECT_WARNINGS_H_
#define HEARTH_ENGINE_INGEST_INSPECT_WARNINGS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/inspect/node_probes.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// Signs of a mistake in the source, in sentences that name the type. REQUIRES:
/// `statistics` and `probes` are of all types, in the order of the manifest.
std::vector<std::string> FindWarnings(const store::Manifest& manifest,
                                      const DatasetStatistics& statistics,
                                      absl::Span<const NodeProbes> probes);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_WARNINGS_H_
