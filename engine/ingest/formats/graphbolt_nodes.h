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

/// Data of the nodes of GraphBolt datasets: features, labels and split.

namespace hearth::ingest {

/// Labels of some nodes.
struct SetLabels {
  /// Node ids, [count], and their labels, [count] or [count, columns].
  std::unique_ptr<ArrayReader> seeds;
  std::unique_ptr<ArrayReader> labels;
};

/// Joins labels of sets to labels of all nodes, in a scratch file called `name`
/// in messages. Classes become int32 [num_nodes], -1 for nodes in no set; other
/// kinds float32 [num_nodes, columns], a row of NaN for nodes in no set.
/// `wanted` is the kind; nullopt: told from the shape of the first set. Takes a
/// quarter of the memory limit; if it does not hold all nodes, every set is
/// read once for each window of nodes that fits. INVALID_ARGUMENT, naming the
/// position, for ids out of range, for values that are no classes (see
/// import/label_import.h; ImportLabels checks other kinds), for different
/// labels of one node, and for sets with different numbers of columns.
/// REQUIRES: sets is not empty.
absl::StatusOr<std::unique_ptr<ArrayReader>> JoinSetLabels(
    ImportContext& context, int64_t num_nodes, const std::string& name,
    std::optional<store::LabelKind> wanted, const std::vector<SetLabels>& sets);

/// Opens the data of nodes that a metadata.yaml describes, whose paths are
/// relative to `folder`. `graph` has its nodes already, with their numbers.
/// - Features: for each type the feature called feat, or its only feature of
///   floats.
/// - Labels: the feature called label or labels, otherwise the labels in the
///   sets of the task.
/// - Split: the seeds (in older files seed_nodes) in the sets of the task.
/// The task is the one whose seeds are single nodes. Everything else is named
/// in warnings. INVALID_ARGUMENT or DATA_LOSS, naming the file, if the data
/// does not fit, or if several features or tasks qualify.
absl::Status OpenGraphBoltNodes(ImportContext& context,
                                const std::string& folder,
                                const MetadataYaml& yaml,
                                const GraphBoltOptions& options,
                                SourceGraph& graph);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_GRAPHBOLT_NODES_H_
