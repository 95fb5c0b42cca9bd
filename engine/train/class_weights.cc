#include "engine/train/class_weights.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace hearth::train {

absl::Status ClassWeights::Validate(store::LabelKind kind,
                                    int64_t width) const {
  if (empty()) return absl::OkStatus();
  if (kind == store::LabelKind::kTargets) {
    return absl::InvalidArgumentError(
        absl::StrCat(balanced ? "balanced_classes" : "class_weights.values",
                     ": must be absent: the labels are targets, not classes"));
  }
  if (balanced) {
    if (kind == store::LabelKind::kClasses) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "balanced_classes: must be none, or a weight for each label: a node "
        "may have several of the labels");
  }
  if (std::ssize(values) != width) {
    return absl::InvalidArgumentError(absl::StrCat(
        "class_weights.values: must have an entry for each of the ", width,
        kind == store::LabelKind::kClasses ? " classes" : " labels", ", not ",
        values.size()));
  }
  for (const double value : values) {
    // As the loss takes it.
    const auto weight = static_cast<float>(value);
    if (std::isfinite(weight) && weight > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "class_weights.values: must be positive numbers, not ", value));
  }
  return absl::OkStatus();
}

std::vector<float> ClassWeights::Resolve(
    absl::Span<const int64_t> class_counts) const {
  if (!balanced) return {values.begin(), values.end()};
  int64_t nodes = 0;
  int64_t classes = 0;
  for (const int64_t count : class_counts) {
    nodes += count;
    classes += count > 0;
  }
  std::vector<float> weights;
  for (const int64_t count : class_counts) {
    weights.push_back(count == 0
                          ? 1.0f
                          : static_cast<float>(static_cast<double>(nodes) /
                                               (static_cast<double>(classes) *
                                                static_cast<double>(count))));
  }
  return weights;
}

}  // namespace hearth::train
