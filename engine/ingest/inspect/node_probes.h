#ifndef HEARTH_ENGINE_INGEST_INSPECT_NODE_PROBES_H_
#define HEARTH_ENGINE_INGEST_INSPECT_NODE_PROBES_H_

#include <cstdint>
#include <optional>

#include "engine/ingest/inspect/feature_scan.h"

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_NODE_PROBES_H_
