#ifndef HEARTH_ENGINE_STORE_LABELS_H_
#define HEARTH_ENGINE_STORE_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/store/topology.h"

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

/// The LabelKind of that name. INVALID_ARGUMENT for other names.
absl::StatusOr<LabelKind> ParseLabelKind(absl::string_view name);

/// Labels of nodes, one row a node, in memory as on disk. With a width of W:
///
/// * kClasses: int32 [rows], one of W classes; -1 where unlabeled.
/// * kMultiLabel: uint8 [rows, MultiLabelRowBytes(W)], a row of bits from the
///   least significant one of the first byte on, as by
///   numpy.packbits(bitorder="little"). Bit c < W tells whether the node has
///   label c; bit W is set where the node is labeled, so that a node with none
///   of the labels differs from an unlabeled one, which is all zero. Further
///   bits are zero. Labels are *partial* where some of a labeled node are not
///   known: rows then have (W + 7) / 8 more bytes, in which bit c is set where
///   label c is known; a label that is not is 0, and a labeled node knows one.
/// * kTargets: float32 [rows, W]; all NaN where unlabeled.

/// Bytes of a kMultiLabel row of `width` labels; with `partial`, including the
/// bits that tell which labels are known.
constexpr int64_t MultiLabelRowBytes(int64_t width, bool partial = false) {
  return width / 8 + 1 + (partial ? (width + 7) / 8 : 0);
}

/// Whether bit `index` of a row is set.
inline bool HasBit(const uint8_t* row, int64_t index) {
  return ((row[index / 8] >> (index % 8)) & 1) != 0;
}

/// Rows of labels that someone else holds. Thread-safe.
struct LabelsView {
  LabelKind kind = LabelKind::kClasses;
  int64_t num_rows = 0;
  /// Classes, labels or targets.
  int64_t width = 0;
  /// For kMultiLabel: whether labels of labeled rows may be unknown.
  bool partial = false;
  /// Exactly one of the three arrays below is non-empty: the one for `kind`.
  absl::Span<const int32_t> classes;
  absl::Span<const uint8_t> bits;
  absl::Span<const float> targets;

  /// The bits of row `row`. REQUIRES: kMultiLabel.
  const uint8_t* BitRow(int64_t row) const {
    return bits.data() + row * MultiLabelRowBytes(width, partial);
  }
  /// Whether label `column` of row `row` is known. REQUIRES: kMultiLabel, and
  /// the row is labeled.
  bool IsKnown(int64_t row, int64_t column) const {
    return !partial || HasBit(BitRow(row) + MultiLabelRowBytes(width), column);
  }
  /// Number of known labels. REQUIRES: kMultiLabel, and all rows are labeled.
  int64_t NumKnown() const;

  /// [width] The targets of row `row`. REQUIRES: kTargets.
  const float* TargetRow(int64_t row) const {
    return targets.data() + row * width;
  }

  bool IsLabeled(int64_t row) const;

  /// Rows [first, first + count).
  LabelsView Rows(int64_t first, int64_t count) const;

  /// INVALID_ARGUMENT unless the arrays have the sizes that follow from
  /// `num_rows` and `width`, and every row is labeled: a class below `width`;
  /// no bit set beyond the bit that marks it as labeled, and at least one known
  /// label; finite targets.
  absl::Status ValidateLabeled() const;
};

/// Rows of labels. A value; thread-compatible.
class Labels {
 public:
  /// No rows.
  Labels() = default;

  /// REQUIRES: the arrays have the sizes of the formats above.
  static Labels Classes(std::vector<int32_t> classes, int64_t num_classes);
  static Labels MultiLabel(std::vector<uint8_t> bits, int64_t num_rows,
                           int64_t width, bool partial = false);
  static Labels Targets(std::vector<float> targets, int64_t num_rows,
                        int64_t width);

  LabelKind kind() const { return kind_; }
  int64_t num_nodes() const { return num_rows_; }

  /// Numbers the nodes from `node` on, instead of from 0 (NodeSpace).
  void set_first_node(NodeId node) { first_node_ = node; }
  int64_t width() const { return width_; }
  bool IsLabeled(NodeId node) const {
    return view().IsLabeled(node - first_node_);
  }

  /// Valid until this is changed or destroyed.
  LabelsView view() const;

  /// The rows of `nodes`, in that order. REQUIRES: all of `nodes` have rows
  /// here.
  Labels Gather(absl::Span<const NodeId> nodes) const;

 private:
  LabelKind kind_ = LabelKind::kClasses;
  int64_t num_rows_ = 0;
  int64_t width_ = 0;
  bool partial_ = false;
  NodeId first_node_ = 0;
  std::vector<int32_t> classes_;
  std::vector<uint8_t> bits_;
  std::vector<float> targets_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_LABELS_H_
