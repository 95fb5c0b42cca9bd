#include "engine/train/metric.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace hearth::train {

namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// Number of nodes with one score, and with all higher scores.
struct Step {
  int64_t positives = 0;
  int64_t negatives = 0;
  int64_t positives_above = 0;
  int64_t negatives_above = 0;
};

// Sum of `value` over the distinct scores of a column, from the highest on.
// Equal scores are one step.
double SumOverSteps(absl::Span<const RankedScore> descending,
                    absl::FunctionRef<double(const Step&)> value) {
  double sum = 0;
  Step step;
  for (size_t i = 0; i < descending.size(); ++i) {
    ++(descending[i].is_positive ? step.positives : step.negatives);
    if (i + 1 < descending.size() &&
        descending[i + 1].score == descending[i].score) {
      continue;
    }
    sum += value(step);
    step = {.positives_above = step.positives_above + step.positives,
            .negatives_above = step.negatives_above + step.negatives};
  }
  return sum;
}

// Mean over columns of `value(descending, positives)`.
double MeanOverColumns(
    const Ranking& ranking,
    absl::FunctionRef<double(absl::Span<const RankedScore>, int64_t)> value) {
  const auto columns = static_cast<size_t>(ranking.columns);
  double sum = 0;
  int64_t defined = 0;
  std::vector<RankedScore> column;
  column.reserve(columns == 0 ? 0 : ranking.scores.size() / columns);
  for (size_t c = 0; c < columns; ++c) {
    column.clear();
    int64_t positives = 0;
    for (size_t i = c; i < ranking.scores.size(); i += columns) {
      if (!ranking.scores[i].is_known) continue;
      if (std::isnan(ranking.scores[i].score)) return kUndefined;
      column.push_back(ranking.scores[i]);
      positives += ranking.scores[i].is_positive;
    }
    if (positives == 0 || positives == std::ssize(column)) continue;
    std::sort(column.begin(), column.end(),
              [](const RankedScore& a, const RankedScore& b) {
                return a.score > b.score;
              });
    sum += value(column, positives);
    ++defined;
  }
  return defined == 0 ? kUndefined : sum / static_cast<double>(defined);
}

}  // namespace

void Ranking::Add(const Ranking& other) {
  columns = other.columns == 0 ? columns : other.columns;
  scores.insert(scores.end(), other.scores.begin(), other.scores.end());
}

uint64_t Ranking::MemoryBytes(int64_t rows, int64_t columns) {
  // Memory for one sorted column.
  return columns == 0 ? 0
                      : sizeof(RankedScore) * static_cast<uint64_t>(rows) *
                            static_cast<uint64_t>(columns + 1);
}

double RocAuc(const Ranking& ranking) {
  return MeanOverColumns(
      ranking, [](absl::Span<const RankedScore> descending, int64_t positives) {
        const int64_t negatives = std::ssize(descending) - positives;
        const double area = SumOverSteps(descending, [](const Step& step) {
          return static_cast<double>(step.negatives) *
                 (static_cast<double>(step.positives_above) +
                  0.5 * static_cast<double>(step.positives));
        });
        return area / static_cast<double>(positives) /
               static_cast<double>(negatives);
      });
}

double AveragePrecision(const Ranking& ranking) {
  return MeanOverColumns(
      ranking, [](absl::Span<const RankedScore> descending, int64_t positives) {
        const double sum = SumOverSteps(descending, [](const Step& step) {
          const int64_t right = step.positives_above + step.positives;
          const int64_t all = right + step.negatives_above + step.negatives;
          return static_cast<double>(step.positives) *
                 static_cast<double>(right) / static_cast<double>(all);
        });
        return sum / static_cast<double>(positives);
      });
}

namespace {

constexpr std::array kMetrics = {Metric::kAccuracy, Metric::kMicroF1,
                                 Metric::kMeanSquaredError, Metric::kRocAuc,
                                 Metric::kAveragePrecision};

double Ratio(double numerator, int64_t denominator) {
  return denominator == 0 ? 0 : numerator / static_cast<double>(denominator);
}

}  // namespace

std::string Name(Metric metric) {
  switch (metric) {
    case Metric::kAccuracy:
      return "accuracy";
    case Metric::kMicroF1:
      return "micro_f1";
    case Metric::kMeanSquaredError:
      return "mse";
    case Metric::kRocAuc:
      return "roc_auc";
    case Metric::kAveragePrecision:
      return "average_precision";
  }
  return "";
}

std::optional<Metric> MetricNamed(absl::string_view name) {
  for (const Metric metric : kMetrics) {
    if (name == Name(metric)) return metric;
  }
  return std::nullopt;
}

Metric MetricFor(store::LabelKind kind) {
  switch (kind) {
    case store::LabelKind::kClasses:
      return Metric::kAccuracy;
    case store::LabelKind::kMultiLabel:
      return Metric::kMicroF1;
    case store::LabelKind::kTargets:
      return Metric::kMeanSquaredError;
  }
  return Metric::kAccuracy;
}

absl::Status CheckMetric(Metric metric, store::LabelKind kind, int64_t width) {
  if (metric == MetricFor(kind)) return absl::OkStatus();
  const bool can_rank = kind != store::LabelKind::kTargets;
  if (can_rank && IsRanking(metric)) {
    if (kind == store::LabelKind::kMultiLabel || width > 1) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "trains[0].metric: ", Name(metric),
        " compares nodes of a class with nodes of others, and the dataset has "
        "a single class; ",
        Name(MetricFor(kind)), " works"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "trains[0].metric: must be ", Name(MetricFor(kind)),
      can_rank ? ", roc_auc or average_precision" : "", " for labels of kind ",
      store::Name(kind), ", not ", Name(metric)));
}

bool IsRanking(Metric metric) {
  return metric == Metric::kRocAuc || metric == Metric::kAveragePrecision;
}

int64_t RankedColumns(store::LabelKind kind, int64_t width) {
  return kind == store::LabelKind::kClasses && width == 2 ? 1 : width;
}

bool IsBetter(Metric metric, double value, double other) {
  return metric == Metric::kMeanSquaredError ? value < other : value > other;
}

void Tally::Add(const Tally& other) {
  num_predictions += other.num_predictions;
  num_correct += other.num_correct;
  true_positives += other.true_positives;
  false_positives += other.false_positives;
  false_negatives += other.false_negatives;
  squared_error += other.squared_error;
  ranking.Add(other.ranking);
}

double Tally::Value(Metric metric) const {
  switch (metric) {
    case Metric::kAccuracy:
      return Ratio(static_cast<double>(num_correct), num_predictions);
    case Metric::kMicroF1: {
      const int64_t doubled = 2 * true_positives;
      return Ratio(static_cast<double>(doubled),
                   doubled + false_positives + false_negatives);
    }
    case Metric::kMeanSquaredError:
      return Ratio(squared_error, num_predictions);
    case Metric::kRocAuc:
      return RocAuc(ranking);
    case Metric::kAveragePrecision:
      return AveragePrecision(ranking);
  }
  return 0;
}

}  // namespace hearth::train
