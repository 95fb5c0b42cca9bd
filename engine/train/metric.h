#ifndef HEARTH_ENGINE_TRAIN_METRIC_H_
#define HEARTH_ENGINE_TRAIN_METRIC_H_

#include <cstdint>
#include <string>

#include "engine/store/label_kind.h"

namespace hearth::train {

/// How the predictions for a set of nodes are judged; the kind of their labels
/// decides which.
enum class Metric {
  /// Share of nodes whose class has the highest score. Of classes.
  kAccuracy,
  /// 2 TP / (2 TP + FP + FN) over all pairs of node and label (0 without any
  /// of these), where a score above 0 predicts the label. Of multi-label.
  kMicroF1,
  /// Mean over nodes and targets of the squared difference. Of targets.
  kMeanSquaredError,
};

/// "accuracy", "micro_f1", "mse".
std::string Name(Metric metric);

/// The metric for labels of `kind`.
Metric MetricFor(store::LabelKind kind);

/// Whether `value` is better than `other`; NaN never is.
bool IsBetter(Metric metric, double value, double other);

/// The counts that a metric is computed from; adds up over batches, integers
/// exactly.
struct Tally {
  /// Predictions judged: nodes, or for kMeanSquaredError nodes times targets.
  int64_t num_predictions = 0;
  /// kAccuracy: those that were right.
  int64_t num_correct = 0;
  /// kMicroF1: pairs of node and label that were predicted, by whether the node
  /// has the label; and those that it has although they were not predicted.
  int64_t true_positives = 0;
  int64_t false_positives = 0;
  int64_t false_negatives = 0;
  /// kMeanSquaredError: the sum, in the order of nodes and targets.
  double squared_error = 0;

  void Add(const Tally& other);

  /// 0 for an empty tally.
  double Value(Metric metric) const;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_METRIC_H_
