#ifndef HEARTH_ENGINE_INGEST_INSPECT_GRAPH_SCAN_H_
#define HEARTH_ENGINE_INGEST_INSPECT_GRAPH_SCAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/inspect/feature_scan.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// Facts about the nodes of one type that an import collects for its warnings
/// alone.
struct NodeProbes {
  /// Suspect columns of the features.
  SuspectColumns suspects;
  /// FeatureScan::begins_like_npy.
  bool begins_like_npy = false;
  /// Training nodes without a label, where there are labels.
  uint64_t num_train_unlabeled = 0;
  /// Training nodes with edges, all of which leave them; absent where the
  /// memory limit did not allow to count them.
  std::optional<uint64_t> num_train_only_sources;
  /// Classes of labeled nodes that no training node has, and the first of them.
  uint64_t num_untrained_classes = 0;
  int64_t first_untrained_class = 0;
  /// Classes that no node has, and the first of them. 0 where the classes were
  /// too many to count.
  uint64_t num_empty_classes = 0;
  int64_t first_empty_class = 0;
  /// Whether each labeled node has exactly one of several labels.
  bool one_label_each = false;
  /// Homophily of edges that join nodes at random: the sum of the squared
  /// shares of the classes. Absent without classes.
  std::optional<double> chance_homophily;
};

/// Signs of a mistake in the source, in sentences that name the type. REQUIRES:
/// `statistics` and `probes` are of all types, in the order of the manifest.
std::vector<std::string> FindWarnings(const store::Manifest& manifest,
                                      const DatasetStatistics& statistics,
                                      absl::Span<const NodeProbes> probes);

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
