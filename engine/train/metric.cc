#include "engine/train/metric.h"

namespace hearth::train {
namespace {

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
  }
  return "";
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
  }
  return 0;
}

}  // namespace hearth::train
