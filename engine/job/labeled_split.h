#ifndef HEARTH_ENGINE_JOB_LABELED_SPLIT_H_
#define HEARTH_ENGINE_JOB_LABELED_SPLIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/job/train_job_options.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"

namespace hearth::job {

/// Refuses a dataset on which no model can be trained: FAILED_PRECONDITION if
/// it lacks edges, features of any node type, or labels or training nodes of
/// the target type. UNIMPLEMENTED, naming the types, if it has several and
/// `data` asks for a strategy or an order that takes one; INVALID_ARGUMENT if
/// it asks for layer-wise sampling then, or has fan-outs of edge types that are
/// not there.
absl::Status CheckTrainable(const store::Dataset& dataset,
                            const DataOptions& data);

/// DataOptions::fanouts_of by the number of the edge type, as samplers take
/// them: empty without any. INVALID_ARGUMENT naming one that is not there.
absl::StatusOr<std::vector<std::vector<int32_t>>> FanoutsByType(
    const store::Manifest& manifest, const DataOptions& data);

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
