#ifndef HEARTH_ENGINE_TRAIN_METRIC_H_
#define HEARTH_ENGINE_TRAIN_METRIC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/store/labels.h"

namespace hearth::train {

/// One score, and whether the node has what it tells of.
struct RankedScore {
  float score = 0;
  bool is_positive = false;
  /// Whether that is known; what is not ranks nowhere.
  bool is_known = true;
};

/// Scores of nodes, by which metrics rank them: a row for each node, a column
/// for each class or label that is told from all else. A value.
struct Ranking {
  int64_t columns = 0;
  /// Row by row.
  std::vector<RankedScore> scores = {};

  /// Appends rows of as many columns; to nothing, rows of any.
  void Add(const Ranking& other);

  /// The bytes that a ranking of so many rows takes at most, what RocAuc and
  /// AveragePrecision need included, if room for it was reserved.
  static uint64_t MemoryBytes(int64_t rows, int64_t columns);
};

/// The area under the ROC curve: how often a positive node has a higher score
/// than a negative one, where equal scores count half (scikit-learn's
/// roc_auc_score). The mean over the columns that have both positives and
/// negatives (OGB's definition); NaN without any, or if a score is NaN.
double RocAuc(const Ranking& ranking);

/// The mean of precisions at each score from the highest on, weighted by the
/// steps in recall; nodes of equal scores are found together (scikit-learn's
/// average_precision_score). Over columns as RocAuc.
double AveragePrecision(const Ranking& ranking);

/// How the predictions for a set of nodes are judged; the kind of their labels
/// decides which can be.
enum class Metric {
  /// Share of nodes whose class has the highest score. Of classes.
  kAccuracy,
  /// 2 TP / (2 TP + FP + FN) over all pairs of node and label (0 without any
  /// of these), where a score above 0 predicts the label. Of multi-label.
  kMicroF1,
  /// Mean over nodes and targets of the squared difference. Of targets.
  kMeanSquaredError,
  /// RocAuc, AveragePrecision: of two classes, for class 1 by its probability;
  /// of more, for each class against the others; of multi-label, for each label
  /// by its score.
  kRocAuc,
  kAveragePrecision,
};

/// "accuracy", "micro_f1", "mse", "roc_auc", "average_precision".
std::string Name(Metric metric);

/// The metric of this name; none if there is none.
std::optional<Metric> MetricNamed(absl::string_view name);

/// The metric for labels of `kind` where none is asked for.
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

/// Counts that a metric is computed from; they add up over batches, integers
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
  /// kRocAuc, kAveragePrecision: the nodes' scores. No others fill it.
  Ranking ranking = {};

  void Add(const Tally& other);

  /// 0 for an empty tally; NaN for an empty ranking.
  double Value(Metric metric) const;
};

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_METRIC_H_
