#include "engine/ingest/inspect/graph_scan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/ingest/inspect/label_scan.h"
#include "engine/ingest/inspect/node_probes.h"
#include "engine/ingest/inspect/topology_scan.h"
#include "engine/ingest/inspect/warnings.h"

namespace hearth::ingest {

absl::StatusOr<DatasetStatistics> ScanGraph(
    ImportContext& context, const std::string& folder,
    const store::Manifest& manifest,
    absl::Span<const std::optional<ScannedFeatures>> features) {
  TopologyScan topology(context, folder, manifest);
  uint64_t bytes = topology.BytesToScan();
  for (const store::NodeTypeEntry& nodes : manifest.node_types) {
    bytes += LabelBytesToScan(nodes);
  }
  context.Begin("counting", bytes);
  DatasetStatistics statistics;
  for (const store::EdgeTypeEntry& edges : manifest.edge_types) {
    HEARTH_ASSIGN_OR_RETURN(EdgeStatistics some, topology.Scan(edges));
    statistics.edges.push_back(std::move(some));
  }
  std::vector<NodeProbes> probes(manifest.node_types.size());
  for (size_t i = 0; i < probes.size(); ++i) {
    const store::NodeTypeEntry& nodes = manifest.node_types[i];
    NodeStatistics some;
    some.type = nodes.name;
    some.num_isolated = topology.NumIsolated(i);
    HEARTH_ASSIGN_OR_RETURN(probes[i].num_train_only_sources,
                            topology.NumTrainOnlySources(i));
    HEARTH_RETURN_IF_ERROR(ScanLabels(context, folder, nodes, some, probes[i]));
    if (features[i].has_value()) {
      some.features = features[i]->statistics;
      probes[i].suspects = features[i]->suspects;
      probes[i].begins_like_npy = features[i]->begins_like_npy;
    }
    statistics.nodes.push_back(std::move(some));
  }
  statistics.notes = topology.Notes();
  statistics.warnings = FindWarnings(manifest, statistics, probes);
  return statistics;
}

}  // namespace hearth::ingest
