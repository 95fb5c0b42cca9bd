#include "engine/store/labels.h"

#include <bit>
#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

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

namespace {

absl::Status CheckSize(const char* what, size_t size, int64_t rows,
                       int64_t row_size) {
  if (size == static_cast<size_t>(rows) * static_cast<size_t>(row_size)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": ", size, " values for ", rows, " rows of ", row_size));
}

absl::Status ValidateClasses(const LabelsView& labels) {
  HEARTH_RETURN_IF_ERROR(
      CheckSize("classes", labels.classes.size(), labels.num_rows, 1));
  for (const int32_t label : labels.classes) {
    if (label < 0 || label >= labels.width) {
      return absl::InvalidArgumentError(absl::StrCat(
          "label ", label, " is not one of ", labels.width, " classes"));
    }
  }
  return absl::OkStatus();
}

/// Whether `known` has a bit, none beyond `width`, and all that `bits` has.
bool IsValidKnown(const uint8_t* bits, const uint8_t* known, int64_t width) {
  const int64_t bytes = (width + 7) / 8;
  bool any = false;
  for (int64_t i = 0; i < bytes; ++i) {
    const int64_t rest = width - 8 * i;
    const int mask = rest >= 8 ? 0xFF : (1 << rest) - 1;
    if ((known[i] & ~mask) != 0 || (bits[i] & mask & ~known[i]) != 0) {
      return false;
    }
    any |= known[i] != 0;
  }
  return any;
}

absl::Status ValidateBits(const LabelsView& labels) {
  const int64_t row_bytes = MultiLabelRowBytes(labels.width);
  HEARTH_RETURN_IF_ERROR(
      CheckSize("labels", labels.bits.size(), labels.num_rows,
                MultiLabelRowBytes(labels.width, labels.partial)));
  for (int64_t row = 0; row < labels.num_rows; ++row) {
    const uint8_t* bits = labels.BitRow(row);
    if (labels.partial && !IsValidKnown(bits, bits + row_bytes, labels.width)) {
      return absl::InvalidArgumentError(
          absl::StrCat("row ", row, " has no known label, or unknown ones"));
    }
    // In the last byte, the bit that marks the row as labeled follows the
    // highest labels.
    if (bits[row_bytes - 1] >> (labels.width % 8) != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "row ", row, " is not the labels of a labeled node: bit ",
          labels.width, " is not its last one set"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateTargets(const LabelsView& labels) {
  HEARTH_RETURN_IF_ERROR(CheckSize("targets", labels.targets.size(),
                                   labels.num_rows, labels.width));
  for (size_t i = 0; i < labels.targets.size(); ++i) {
    if (!std::isfinite(labels.targets[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "target ", i % static_cast<size_t>(labels.width), " of row ",
          i / static_cast<size_t>(labels.width), " is ", labels.targets[i]));
    }
  }
  return absl::OkStatus();
}

/// Appends `row_size` values for each of `nodes`.
template <typename T>
std::vector<T> GatherRows(const std::vector<T>& rows, int64_t row_size,
                          absl::Span<const NodeId> nodes, NodeId first_node) {
  std::vector<T> gathered;
  gathered.reserve(nodes.size() * static_cast<size_t>(row_size));
  for (const NodeId node : nodes) {
    const auto begin = rows.begin() + (node - first_node) * row_size;
    gathered.insert(gathered.end(), begin, begin + row_size);
  }
  return gathered;
}

}  // namespace

LabelsView LabelsView::Rows(int64_t first, int64_t count) const {
  LabelsView part = *this;
  part.num_rows = count;
  const auto cut = [&](const auto& rows, int64_t row_size) {
    return rows.empty() ? rows
                        : rows.subspan(static_cast<size_t>(first * row_size),
                                       static_cast<size_t>(count * row_size));
  };
  part.classes = cut(classes, 1);
  part.bits = cut(bits, MultiLabelRowBytes(width, partial));
  part.targets = cut(targets, width);
  return part;
}

bool LabelsView::IsLabeled(int64_t row) const {
  switch (kind) {
    case LabelKind::kClasses:
      return classes[static_cast<size_t>(row)] >= 0;
    case LabelKind::kMultiLabel:
      return HasBit(BitRow(row), width);
    case LabelKind::kTargets:
      return !std::isnan(*TargetRow(row));
  }
  return false;
}

int64_t LabelsView::NumKnown() const {
  if (!partial) return num_rows * width;
  int64_t known = 0;
  for (int64_t row = 0; row < num_rows; ++row) {
    const uint8_t* bits = BitRow(row) + MultiLabelRowBytes(width);
    for (int64_t i = 0; i < (width + 7) / 8; ++i)
      known += std::popcount(bits[i]);
  }
  return known;
}

absl::Status LabelsView::ValidateLabeled() const {
  switch (kind) {
    case LabelKind::kClasses:
      return ValidateClasses(*this);
    case LabelKind::kMultiLabel:
      return ValidateBits(*this);
    case LabelKind::kTargets:
      return ValidateTargets(*this);
  }
  return absl::InvalidArgumentError("labels of no kind");
}

Labels Labels::Classes(std::vector<int32_t> classes, int64_t num_classes) {
  Labels labels;
  labels.num_rows_ = static_cast<int64_t>(classes.size());
  labels.width_ = num_classes;
  labels.classes_ = std::move(classes);
  return labels;
}

Labels Labels::MultiLabel(std::vector<uint8_t> bits, int64_t num_rows,
                          int64_t width, bool partial) {
  Labels labels;
  labels.kind_ = LabelKind::kMultiLabel;
  labels.partial_ = partial;
  labels.num_rows_ = num_rows;
  labels.width_ = width;
  labels.bits_ = std::move(bits);
  return labels;
}

Labels Labels::Targets(std::vector<float> targets, int64_t num_rows,
                       int64_t width) {
  Labels labels;
  labels.kind_ = LabelKind::kTargets;
  labels.num_rows_ = num_rows;
  labels.width_ = width;
  labels.targets_ = std::move(targets);
  return labels;
}

LabelsView Labels::view() const {
  return {.kind = kind_,
          .num_rows = num_rows_,
          .width = width_,
          .partial = partial_,
          .classes = classes_,
          .bits = bits_,
          .targets = targets_};
}

Labels Labels::Gather(absl::Span<const NodeId> nodes) const {
  Labels gathered;
  gathered.kind_ = kind_;
  gathered.num_rows_ = static_cast<int64_t>(nodes.size());
  gathered.width_ = width_;
  gathered.partial_ = partial_;
  // There are none.
  if (width_ == 0) return gathered;
  switch (kind_) {
    case LabelKind::kClasses:
      gathered.classes_ = GatherRows(classes_, 1, nodes, first_node_);
      break;
    case LabelKind::kMultiLabel:
      gathered.bits_ = GatherRows(bits_, MultiLabelRowBytes(width_, partial_),
                                  nodes, first_node_);
      break;
    case LabelKind::kTargets:
      gathered.targets_ = GatherRows(targets_, width_, nodes, first_node_);
      break;
  }
  return gathered;
}

}  // namespace hearth::store
