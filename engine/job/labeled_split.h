#ifndef HEARTH_ENGINE_JOB_LABELED_SPLIT_H_
#define HEARTH_ENGINE_JOB_LABELED_SPLIT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"

namespace hearth::job {

/// Refuses a dataset on which no model can be trained: UNIMPLEMENTED, naming
/// the types, if it has several node or edge types; FAILED_PRECONDITION if it
/// lacks edges, features, labels or training nodes.
absl::Status CheckTrainable(const store::Dataset& dataset);

/// The nodes of a split that a job works on.
struct LabeledSplit {
  store::Split nodes;
  /// A line for each part from which nodes were left out.
  std::vector<std::string> warnings;
};

/// Leaves out the nodes without a label, which a split may have (a test set
/// whose labels are kept secret, say). FAILED_PRECONDITION if no training node
/// is left. REQUIRES: the split is one of the nodes of `labels`.
absl::StatusOr<LabeledSplit> WithoutUnlabeled(store::Split split,
                                              const store::Labels& labels);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_LABELED_SPLIT_H_
