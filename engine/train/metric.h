#ifndef HEARTH_ENGINE_TRAIN_METRIC_H_
#define HEARTH_ENGINE_TRAIN_METRIC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/store/labels.h"

/// How predictions are judged. Counts and scores add up over batches.

namespace hearth::train {

/// Score of one node for one column, with its true label.
struct RankedScore {
  float score = 0;
  bool is_positive = false;
  /// Whether the label is known; scores with unknown labels are not ranked.
  bool is_known = true;
};

/// Scores by which metrics rank nodes: a row for each node, a column for each
/// class or label that is told from all others. A value.
struct Ranking {
  int64_t columns = 0;
  /// Scores row by row.
  std::vector<RankedScore> scores = {};

  /// Appends rows of equally many columns; an empty ranking takes rows of any.
  void Add(const Ranking& other);

  /// Upper bound of the bytes of a ranking of `rows` rows, for which memory was
  /// reserved, and of RocAuc and AveragePrecision on it.
  static uint64_t MemoryBytes(int64_t rows, int64_t columns);
};

/// Area under the ROC curve: how often a positive node has a higher score than
/// a negative one, where equal scores count half (scikit-learn's
/// roc_auc_score). Mean over the columns that have both positives and negatives
/// (OGB's definition); NaN if there is no such column, or if a score is NaN.
double RocAuc(const Ranking& ranking);

/// Mean of the precisions at each score, from the highest on, weighted by the
/// increases of recall; nodes of equal scores are one step (scikit-learn's
/// average_precision_score). Mean over columns as in RocAuc.
double AveragePrecision(const Ranking& ranking);

/// How predictions for a set of nodes are judged. The kind of their labels
/// decides which metrics apply.
enum class Metric {
  /// Share of nodes whose class has the highest score. For classes.
  kAccuracy,
  /// 2 TP / (2 TP + FP + FN) over all pairs of node and label (0 without any
  /// such pair), where a score above 0 predicts the label. For multi-label.
  kMicroF1,
  /// Mean of the squared difference, over nodes and targets. For targets.
  kMeanSquaredError,
  /// RocAuc and AveragePrecision: with two classes, of class 1 by its
  /// probability; with more, of each class against the others; with
  /// multi-label, of each label by its score.
  kRocAuc,
  kAveragePrecision,
};

/// Name of a metric: "accuracy", "micro_f1", "mse", "roc_auc",
/// "average_precision".
std::string Name(Metric metric);

/// Metric with this name; nullopt if there is none.
std::optional<Metric> MetricNamed(absl::string_view name);

/// Default metric for labels of `kind`.
Metric MetricFor(store::LabelKind kind);

/// INVALID_ARGUMENT, naming the option, unless `metric` can judge labels of
/// this kind and width.
absl::Status CheckMetric(Metric metric, store::LabelKind kind, int64_t width);

/// Whether `metric` ranks nodes, and so needs all scores at once.
bool IsRanking(Metric metric);

/// Columns of the ranking of labels of this kind and width.
int64_t RankedColumns(store::LabelKind kind, int64_t width);

/// Whether `value` is better than `other`; NaN never is.
bool IsBetter(Metric metric, double value, double other);

/// Counts from which a metric is computed. They add up over batches, integers
/// exactly.
struct Tally {
  /// Judged predictions: nodes, or for kMeanSquaredError nodes times targets.
  int64_t num_predictions = 0;
  /// kAccuracy: correct predictions.
  int64_t num_correct = 0;
  /// kMicroF1: predicted labels that a node has; predicted labels that it
  /// lacks; labels that it has but that were not predicted.
  int64_t true_positives = 0;
  int64_t false_positives = 0;
  int64_t false_negatives = 0;
  /// kMeanSquaredError: sum of squared differences, in the order of nodes and
  /// targets.
  double squared_error = 0;
  /// kRocAuc, kAveragePrecision: scores of the nodes. Empty for other metrics.
  Ranking ranking = {};

  void Add(const Tally& other);

  /// Value of the metric; 0 for an empty tally; NaN for an empty ranking.
  double Value(Metric metric) const;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_METRIC_H_
