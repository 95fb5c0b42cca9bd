#ifndef HEARTH_ENGINE_TRAIN_CLASS_WEIGHTS_H_
#define HEARTH_ENGINE_TRAIN_CLASS_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/store/label_kind.h"

namespace hearth::train {

/// How much nodes count in the training loss, by their labels: at most one of
/// the two is set, and neither is all nodes alike.
///
/// * kClasses: the loss is the weighted mean over nodes, each of which has the
///   weight of its class (torch.nn.CrossEntropyLoss with `weight`).
/// * kMultiLabel: the weight of having a label against lacking it
///   (torch.nn.BCEWithLogitsLoss with `pos_weight`).
struct ClassWeights {
  /// Each class counts by N / (C * N_c), where N_c of the N training nodes have
  /// it, and C classes have any node (scikit-learn's "balanced"). Of kClasses
  /// only.
  bool balanced = false;
  /// One positive number for each class or label.
  std::vector<double> values = {};

  bool empty() const { return !balanced && values.empty(); }

  /// INVALID_ARGUMENT, naming the option, unless they can weigh labels of this
  /// kind and width.
  absl::Status Validate(store::LabelKind kind, int64_t width) const;

  /// The weight of each class or label; empty where all nodes are alike. A
  /// class without training nodes has a balanced weight of 1. `class_counts`
  /// are the training nodes of each class. REQUIRES: Validate.
  std::vector<float> Resolve(absl::Span<const int64_t> class_counts) const;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_CLASS_WEIGHTS_H_
