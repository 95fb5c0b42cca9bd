#ifndef HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_NODES_H_
#define HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_NODES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/metadata_yaml.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/labels.h"

namespace hearth::ingest {

/// Labels of some nodes.
struct SetLabels {
  /// [count] ids, and [count] or [count, columns] labels.
  std::unique_ptr<ArrayReader> seeds;
  std::unique_ptr<ArrayReader> labels;
};

/// The labels of all nodes, in a scratch file called `name` in messages: of
/// classes int32 [num_nodes], -1 where no set has one; of other kinds float32
/// [num_nodes, columns], a row of NaN where no set has any. `wanted` is their
/// kind; nullopt: told from the shape of the first. Takes a quarter of the
/// memory limit; where the nodes do not fit in that, the sets are read once for
/// each part of them. INVALID_ARGUMENT naming the position for ids out of
/// range, for what is no class (see label_import.h; of the other kinds
/// ImportLabels checks the values), for a node with different labels, and for
/// sets of different numbers of columns. REQUIRES: sets is not empty.
absl::StatusOr<std::unique_ptr<ArrayReader>> JoinSetLabels(
    ImportContext& context, int64_t num_nodes, const std::string& name,
    std::optional<store::LabelKind> wanted, const std::vector<SetLabels>& sets);

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
