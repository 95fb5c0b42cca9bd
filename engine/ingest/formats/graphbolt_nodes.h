#ifndef HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_NODES_H_
#define HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_NODES_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/metadata_yaml.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

/// Opens what a metadata.yaml, whose paths are relative to `folder`, says about
/// the nodes of `graph`, which are there with their numbers:
/// - features: of each type the one called feat, or the only one of floats;
/// - labels: the feature called label or labels, or else the labels in the sets
///   of the task;
/// - split: the seeds (in older files seed_nodes) in the sets of the task.
/// The task is the one whose seeds are single nodes. What is left out goes into
/// the warnings. INVALID_ARGUMENT or DATA_LOSS, naming the file, for what
/// does not fit, and if there are several such features or tasks.
absl::Status OpenGraphBoltNodes(ImportContext& context,
                                const std::string& folder,
                                const MetadataYaml& yaml,
                                const GraphBoltOptions& options,
                                SourceGraph& graph);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_NODES_H_
