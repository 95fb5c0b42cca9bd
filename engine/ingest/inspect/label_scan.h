#ifndef HEARTH_ENGINE_INGEST_INSPECT_LABEL_SCAN_H_
#define HEARTH_ENGINE_INGEST_INSPECT_LABEL_SCAN_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/ingest/inspect/node_probes.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// Counts what is in the stored labels and training nodes of one type: sets
/// num_unlabeled and class_counts, and of the probes what labels tell. Advances
/// the context by the labels' bytes. Classes beyond those whose counts fit a
/// quarter of the memory limit are not counted.
absl::Status ScanLabels(ImportContext& context, const std::string& folder,
                        const store::NodeTypeEntry& nodes,
                        NodeStatistics& statistics, NodeProbes& probes);

/// Bytes that it advances by.
uint64_t LabelBytesToScan(const store::NodeTypeEntry& nodes);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_LABEL_SCAN_H_
