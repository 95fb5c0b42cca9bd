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

/// Statistics and warnings of a dataset whose arrays are written: one more pass
/// over labels and topology.

namespace hearth::ingest {

/// Findings about the nodes of one type that serve only the import's warnings.
struct NodeProbes {
  /// Suspect columns of the features.
  SuspectColumns suspects;
  /// See ScannedFeatures::begins_like_npy.
  bool begins_like_npy = false;
  /// Training nodes without a label, if the type has labels.
  uint64_t num_train_unlabeled = 0;
  /// Training nodes all of whose edges, one or more, leave them; nullopt if the
  /// memory limit did not allow counting them.
  std::optional<uint64_t> num_train_only_sources;
  /// Number of classes that labeled nodes but no training node have, and the
  /// first of them.
  uint64_t num_untrained_classes = 0;
  int64_t first_untrained_class = 0;
  /// Number of classes without nodes, and the first of them. 0 if the classes
  /// were too many to count.
  uint64_t num_empty_classes = 0;
  int64_t first_empty_class = 0;
  /// Whether every labeled node has exactly one label of a multi-label set.
  bool one_label_each = false;
  /// Homophily expected of random edges: the sum of the squared shares of the
  /// classes. nullopt without classes.
  std::optional<double> chance_homophily;
};

/// Signs of a mistake in the source, in sentences that name the type. REQUIRES:
/// `statistics` and `probes` have all types, in the order of the manifest.
std::vector<std::string> FindWarnings(const store::Manifest& manifest,
                                      const DatasetStatistics& statistics,
                                      absl::Span<const NodeProbes> probes);

/// Computes statistics of a dataset whose arrays are all in `folder`, reading
/// labels and topology once more, and warns of likely mistakes. `features` has
/// the scan of each node type's features. CANCELLED after a stop; DATA_LOSS if
/// an array is no longer as written.
absl::StatusOr<DatasetStatistics> ScanGraph(
    ImportContext& context, const std::string& folder,
    const store::Manifest& manifest,
    absl::Span<const std::optional<ScannedFeatures>> features);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_GRAPH_SCAN_H_
