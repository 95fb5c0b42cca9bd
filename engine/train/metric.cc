#include "engine/train/metric.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace hearth::train {
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
