#ifndef HEARTH_ENGINE_STORE_LABEL_KIND_H_
#define HEARTH_ENGINE_STORE_LABEL_KIND_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth::store {

/// The kind of a node's label.
enum class LabelKind {
  /// One of several classes.
  kClasses,
  /// Any subset of several labels.
  kMultiLabel,
  /// One or more numbers to predict.
  kTargets,
};

/// "classes", "multi_label", "targets".
std::string Name(LabelKind kind);

/// The inverse of Name. INVALID_ARGUMENT for anything else.
absl::StatusOr<LabelKind> ParseLabelKind(absl::string_view name);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_LABEL_KIND_H_
