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

/// The inverse of Name. INVALID_ARGUMENT for anything else.
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

/// Bytes of a row of W labels and the bit that tells whether it is labeled; of
/// partial ones, with the bits that tell which are known.
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
  /// Of kMultiLabel: whether labels of labeled rows may be unknown.
  bool partial = false;
  /// The one that `kind` names is set.
  absl::Span<const int32_t> classes;
  absl::Span<const uint8_t> bits;
  absl::Span<const float> targets;

  /// One row of a kMultiLabel.
  const uint8_t* BitRow(int64_t row) const {
    return bits.data() + row * MultiLabelRowBytes(width, partial);
  }
  /// Whether a label of a labeled row of a kMultiLabel is known.
  bool IsKnown(int64_t row, int64_t column) const {
    return !partial || HasBit(BitRow(row) + MultiLabelRowBytes(width), column);
  }
  /// Labels of a kMultiLabel that are known. REQUIRES: all rows are labeled.
  int64_t NumKnown() const;

  /// One row of a kTargets, [width].
  const float* TargetRow(int64_t row) const {
    return targets.data() + row * width;
  }

  bool IsLabeled(int64_t row) const;

  /// INVALID_ARGUMENT unless the arrays have the sizes that `num_rows` and
  /// `width` say, and every row is labeled: a class below `width`, no bit
  /// beyond the one that says so, at least one known label, targets that are
  /// finite.
  absl::Status ValidateLabeled() const;
};

/// Rows of labels. A value; thread-compatible.
class Labels {
 public:
  /// No rows.
  Labels() = default;

  /// REQUIRES: arrays of the sizes above.
  static Labels Classes(std::vector<int32_t> classes, int64_t num_classes);
  static Labels MultiLabel(std::vector<uint8_t> bits, int64_t num_rows,
                           int64_t width, bool partial = false);
  static Labels Targets(std::vector<float> targets, int64_t num_rows,
                        int64_t width);

  LabelKind kind() const { return kind_; }
  int64_t num_nodes() const { return num_rows_; }

  /// Numbers the nodes from `node` on, not from 0 (NodeSpace).
  void set_first_node(NodeId node) { first_node_ = node; }
  int64_t width() const { return width_; }
  bool IsLabeled(NodeId node) const {
    return view().IsLabeled(node - first_node_);
  }

  /// Valid until this is changed or destroyed.
  LabelsView view() const;

  /// The rows of `nodes`, in their order. REQUIRES: nodes of these.
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
