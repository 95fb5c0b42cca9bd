#ifndef HEARTH_ENGINE_TRAIN_RANKING_H_
#define HEARTH_ENGINE_TRAIN_RANKING_H_

#include <cstdint>
#include <vector>

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

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_RANKING_H_
