#include "engine/ingest/export/label_output.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/ingest/import/label_rows.h"

namespace hearth::ingest {
namespace {

/// Of several labels, one that is not known is NaN.
bool IsLabel(float value, store::LabelKind kind) {
  return kind == store::LabelKind::kMultiLabel
             ? value == 0 || value == 1 || std::isnan(value)
             : std::isfinite(value);
}

absl::Status CheckRow(const LabelRows& labels, store::LabelKind kind,
                      int64_t row, const double* values) {
  bool unlabeled = false;
  if (kind == store::LabelKind::kTargets) {
    HEARTH_ASSIGN_OR_RETURN(unlabeled, labels.IsUnlabeled(row, values));
  }
  for (int64_t column = 0; !unlabeled && column < labels.width(); ++column) {
    if (IsLabel(static_cast<float>(values[column]), kind)) continue;
    return labels.ErrorAt(row, column, ", no label");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ForEachLabelRowBlock(
    ImportContext& context, ArrayReader& labels, store::LabelKind kind,
    absl::FunctionRef<absl::Status(absl::Span<const float> rows)> visit) {
  HEARTH_ASSIGN_OR_RETURN(LabelRows rows, LabelRows::Open(context, labels));
  std::vector<float> floats;
  for (int64_t first = 0; first < rows.num_rows(); first += rows.block_rows()) {
    const int64_t count = std::min(rows.block_rows(), rows.num_rows() - first);
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const double> values,
                            rows.Read(first, count));
    for (int64_t row = 0; row < count; ++row) {
      HEARTH_RETURN_IF_ERROR(CheckRow(rows, kind, first + row,
                                      values.data() + row * rows.width()));
    }
    floats.assign(values.begin(), values.end());
    HEARTH_RETURN_IF_ERROR(visit(floats));
    HEARTH_RETURN_IF_ERROR(context.Advance(floats.size() * sizeof(float)));
  }
  return absl::OkStatus();
}

}  // namespace hearth::ingest
