#ifndef HEARTH_CLIENT_CLI_LABEL_WORDS_H_
#define HEARTH_CLIENT_CLI_LABEL_WORDS_H_

#include <cstdint>
#include <string>

#include "hearth/v1/spec.pb.h"

namespace hearth::cli {

/// "45 classes", "121 labels", "1 target"; "no labels" for a width of 0.
std::string LabelWords(v1::LabelKind kind, uint64_t width);

/// The name of a report's metric for users: "accuracy", "micro-F1", "mean
/// squared error", "ROC-AUC", "average precision"; escaped if it is none that
/// this client knows.
std::string MetricWords(const std::string& metric);

/// A metric's value: three decimals for shares, six digits otherwise; "not
/// defined" for NaN.
std::string FormatMetric(const std::string& metric, double value);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_LABEL_WORDS_H_
