#include "engine/ingest/formats/set_labels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/label_rows.h"
#include "engine/ingest/import/scratch_array.h"
#include "engine/ingest/import/split_import.h"
#include "engine/store/array_header.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockElements = 32 << 10;
constexpr int32_t kUnlabeled = -1;

/// How labels are joined: classes are floats, too, which hold all of them.
struct JoinedShape {
  store::LabelKind kind = store::LabelKind::kClasses;
  int64_t num_nodes = 0;
  int64_t width = 1;
};

/// Consecutive nodes whose labels are in memory.
class NodeWindow {
 public:
  NodeWindow(const JoinedShape& shape, int64_t first, int64_t count)
      : shape_(shape),
        width_(static_cast<size_t>(shape.width)),
        first_(first),
        is_set_(static_cast<size_t>(count)),
        labels_(is_set_.size() * width_,
                std::numeric_limits<float>::quiet_NaN()) {}

  /// Takes the labels of the nodes that are in the window.
  absl::Status Read(ImportContext& context, const SetLabels& set) {
    HEARTH_ASSIGN_OR_RETURN(LabelRows rows,
                            LabelRows::Open(context, *set.labels));
    const int64_t block = std::min(kBlockElements, rows.block_rows());
    for (int64_t first = 0; first < rows.num_rows(); first += block) {
      const int64_t count = std::min(block, rows.num_rows() - first);
      seeds_.resize(static_cast<size_t>(count));
      HEARTH_RETURN_IF_ERROR(
          set.seeds->ReadInts(first, absl::MakeSpan(seeds_)));
      HEARTH_ASSIGN_OR_RETURN(const absl::Span<const double> values,
                              rows.Read(first, count));
      for (int64_t i = 0; i < count; ++i) {
        HEARTH_RETURN_IF_ERROR(
            Set(set, rows, first + i, seeds_[static_cast<size_t>(i)],
                values.subspan(static_cast<size_t>(i) * width_, width_)));
      }
      HEARTH_RETURN_IF_ERROR(context.Advance(static_cast<uint64_t>(count)));
    }
    return absl::OkStatus();
  }

  /// Appends the labels in the order of the nodes, in pieces: what is appended
  /// is buffered.
  absl::Status Write(ScratchArray& joined) const {
    for (absl::Span<const float> labels = labels_; !labels.empty();) {
      const auto piece = labels.first(
          std::min<size_t>(labels.size(), static_cast<size_t>(kBlockElements)));
      labels.remove_prefix(piece.size());
      if (shape_.kind != store::LabelKind::kClasses) {
        HEARTH_RETURN_IF_ERROR(joined.AppendValues(piece));
        continue;
      }
      std::vector<int32_t> classes;
      for (const float label : piece) {
        classes.push_back(std::isnan(label) ? kUnlabeled
                                            : static_cast<int32_t>(label));
      }
      HEARTH_RETURN_IF_ERROR(
          joined.AppendValues<int32_t>(absl::MakeConstSpan(classes)));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckValue(const LabelRows& rows, int64_t row, int64_t column,
                          double value) const {
    if (shape_.kind != store::LabelKind::kClasses) {
      return !std::isinf(static_cast<float>(value))
                 ? absl::OkStatus()
                 : rows.ErrorAt(row, column, ", more than a float32 can hold");
    }
    if (std::isnan(value)) return absl::OkStatus();
    if (value != std::floor(value) && std::isfinite(value)) {
      return rows.ErrorAt(
          row, column,
          ", not a whole number; --labels targets takes numbers "
          "to predict");
    }
    if (value >= kUnlabeled && value < static_cast<double>(kMaxClasses)) {
      return absl::OkStatus();
    }
    return rows.ErrorAt(row, column,
                        absl::StrCat("; labels are 0 .. ", kMaxClasses - 1,
                                     ", or -1 for none"));
  }

  absl::Status Set(const SetLabels& set, const LabelRows& rows, int64_t row,
                   int64_t node, absl::Span<const double> values) {
    if (node < 0 || node >= shape_.num_nodes) {
      return set.seeds->ErrorAt(
          row, absl::StrCat("is ", node, "; node ids are 0 .. ",
                            shape_.num_nodes - 1));
    }
    for (size_t i = 0; i < width_; ++i) {
      HEARTH_RETURN_IF_ERROR(
          CheckValue(rows, row, static_cast<int64_t>(i), values[i]));
    }
    const auto at = static_cast<uint64_t>(node - first_);
    if (node < first_ || at >= is_set_.size()) return absl::OkStatus();
    const absl::Span<float> there =
        absl::MakeSpan(labels_).subspan(at * width_, width_);
    for (size_t i = 0; i < width_; ++i) {
      const bool is_unlabeled_class =
          shape_.kind == store::LabelKind::kClasses && values[i] == kUnlabeled;
      const float label = is_unlabeled_class
                              ? std::numeric_limits<float>::quiet_NaN()
                              : static_cast<float>(values[i]);
      const bool is_same =
          label == there[i] || (std::isnan(label) && std::isnan(there[i]));
      if (is_set_[at] && !is_same) {
        return rows.ErrorAt(row, static_cast<int64_t>(i),
                            absl::StrCat(", but node ", node, " has the label ",
                                         there[i], " already"));
      }
      there[i] = label;
    }
    is_set_[at] = true;
    return absl::OkStatus();
  }

  const JoinedShape& shape_;
  const size_t width_;
  const int64_t first_;
  /// Whether a set has the node.
  std::vector<bool> is_set_;
  /// Rows of the nodes; NaN: unlabeled.
  std::vector<float> labels_;
  std::vector<int64_t> seeds_;
};

absl::StatusOr<JoinedShape> ShapeOf(int64_t num_nodes,
                                    std::optional<store::LabelKind> wanted,
                                    const std::vector<SetLabels>& sets) {
  JoinedShape shape;
  shape.num_nodes = num_nodes;
  for (const SetLabels& set : sets) {
    HEARTH_RETURN_IF_ERROR(CheckSplitHeader(*set.seeds, num_nodes));
    const store::ArrayHeader& header = set.labels->header();
    HEARTH_RETURN_IF_ERROR(
        CheckLabelHeader(*set.labels, set.seeds->header().shape[0], wanted));
    const int64_t width = header.shape.size() == 1 ? 1 : header.shape[1];
    if (&set == &sets[0]) {
      shape.kind = KindOfLabels(header, wanted);
      shape.width = width;
    } else if (width != shape.width) {
      return set.labels->Error(absl::StrCat("has ", width, " columns; ",
                                            sets[0].labels->path(), " has ",
                                            shape.width));
    }
  }
  return shape;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayReader>> JoinSetLabels(
    ImportContext& context, int64_t num_nodes, const std::string& name,
    std::optional<store::LabelKind> wanted,
    const std::vector<SetLabels>& sets) {
  HEARTH_ASSIGN_OR_RETURN(const JoinedShape shape,
                          ShapeOf(num_nodes, wanted, sets));
  uint64_t elements = 0;
  for (const SetLabels& set : sets) {
    elements += static_cast<uint64_t>(set.seeds->header().shape[0]);
  }
  const auto row_bytes = static_cast<uint64_t>(shape.width) * sizeof(float);
  const auto window = std::max<int64_t>(
      1, static_cast<int64_t>(context.memory_limit_bytes() / 4 / row_bytes));
  const int64_t passes = (num_nodes - 1) / window + 1;
  HEARTH_RETURN_IF_ERROR(context.CheckSpace(
      static_cast<uint64_t>(num_nodes) * row_bytes, "joining the labels"));
  context.Begin("unpacking", elements * static_cast<uint64_t>(passes));
  const bool is_classes = shape.kind == store::LabelKind::kClasses;
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ScratchArray> joined,
      ScratchArray::Create(context,
                           {is_classes ? store::ElementType::Kind::kInt
                                       : store::ElementType::Kind::kFloat,
                            sizeof(float)},
                           name));
  for (int64_t first = 0; first < num_nodes; first += window) {
    NodeWindow nodes(shape, first, std::min(window, num_nodes - first));
    for (const SetLabels& set : sets) {
      HEARTH_RETURN_IF_ERROR(nodes.Read(context, set));
    }
    HEARTH_RETURN_IF_ERROR(nodes.Write(*joined));
  }
  if (is_classes) return joined->Finish({num_nodes});
  return joined->Finish({num_nodes, shape.width});
}

}  // namespace hearth::ingest
