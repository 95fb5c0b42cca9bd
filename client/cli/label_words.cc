#include "client/cli/label_words.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "client/cli/escape.h"
#include "client/cli/figures.h"

namespace hearth::cli {

std::string LabelWords(v1::LabelKind kind, uint64_t width) {
  if (width == 0) return "no labels";
  switch (kind) {
    case v1::CLASSES:
      return Counted(width, "class", "classes");
    case v1::TARGETS:
      return Counted(width, "target");
    default:
      return Counted(width, "label");
  }
}

std::string MetricWords(const std::string& metric) {
  if (metric == "micro_f1") return "micro-F1";
  if (metric == "mse") return "mean squared error";
  if (metric == "roc_auc") return "ROC-AUC";
  if (metric == "average_precision") return "average precision";
  return EscapeControl(metric);
}

std::string FormatMetric(const std::string& metric, double value) {
  if (std::isnan(value)) return "not defined";
  if (metric == "accuracy" || metric == "micro_f1" || metric == "roc_auc" ||
      metric == "average_precision") {
    return absl::StrFormat("%.3f", value);
  }
  return absl::StrFormat("%.6g", value);
}

}  // namespace hearth::cli
