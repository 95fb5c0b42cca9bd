#include "engine/store/label_kind.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace hearth::store {

std::string Name(LabelKind kind) {
  switch (kind) {
    case LabelKind::kClasses:
      return "classes";
    case LabelKind::kMultiLabel:
      return "multi_label";
    case LabelKind::kTargets:
      return "targets";
  }
  return "";
}

absl::StatusOr<LabelKind> ParseLabelKind(absl::string_view name) {
  for (const LabelKind kind :
       {LabelKind::kClasses, LabelKind::kMultiLabel, LabelKind::kTargets}) {
    if (name == Name(kind)) return kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CEscape(name), "\" is not a kind of labels"));
}

}  // namespace hearth::store
