#ifndef HEARTH_ENGINE_INGEST_IMPORT_LABEL_IMPORT_H_
#define HEARTH_ENGINE_INGEST_IMPORT_LABEL_IMPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/store/array_writer.h"
#include "engine/store/labels.h"
#include "engine/store/npy.h"

/// Import of labels.

namespace hearth::ingest {

/// Reads rows of a one- or two-dimensional array as doubles, whatever its
/// element type and order. Integers beyond 2^53 are rounded. Thread-compatible.
class LabelRows {
 public:
  /// RESOURCE_EXHAUSTED if a row does not fit an eighth of the memory limit.
  static absl::StatusOr<LabelRows> Open(const ImportContext& context,
                                        ArrayReader& array);

  int64_t num_rows() const { return num_rows_; }
  /// Number of columns; 1 for an array of one dimension.
  int64_t width() const { return width_; }
  /// Most rows of one Read.
  int64_t block_rows() const { return block_rows_; }

  /// Rows `first` .. `first` + `count` - 1, row-major; valid until the next
  /// call. REQUIRES: count <= block_rows().
  absl::StatusOr<absl::Span<const double>> Read(int64_t first, int64_t count);

  /// Whether the row at `values` is all NaN. INVALID_ARGUMENT, naming the first
  /// NaN, if only some of its values are.
  absl::StatusOr<bool> IsUnlabeled(int64_t row, const double* values) const;

  /// INVALID_ARGUMENT with the element and its value: "labels.npy: [5, 2] is
  /// 7`problem`".
  absl::Status ErrorAt(int64_t row, int64_t column,
                       absl::string_view problem) const;

 private:
  LabelRows(ArrayReader& array, int64_t block_rows);

  absl::Status ReadElements(int64_t first, absl::Span<double> out);
  std::string TextAt(int64_t position) const;
  int64_t Position(int64_t row, int64_t column) const;

  ArrayReader& array_;
  const int64_t num_rows_;
  const int64_t width_;
  const int64_t block_rows_;
  std::vector<double> values_;
  std::vector<double> column_;
  std::vector<int64_t> ints_;
};

/// Limit on the number of classes, labels or targets; more are taken for a
/// mistake.
inline constexpr int64_t kMaxClasses = 10'000'000;
inline constexpr int64_t kMaxLabelColumns = 1 << 20;

/// Kind of the labels of an array: `wanted`, or told from the shape: classes
/// for one column, multi-label for several.
store::LabelKind KindOfLabels(const store::ArrayHeader& header,
                              std::optional<store::LabelKind> wanted);

/// INVALID_ARGUMENT unless `labels` has shape (N,) or (N, 1), or, for kinds
/// other than classes, (N, C).
absl::Status CheckLabelHeader(const ArrayReader& labels, int64_t num_nodes,
                              std::optional<store::LabelKind> wanted);

/// Upper bound of the bytes of the array that ImportLabels writes; multi-label
/// rows are counted as partial. REQUIRES: CheckLabelHeader.
uint64_t ImportedLabelBytes(const store::ArrayHeader& header,
                            std::optional<store::LabelKind> wanted);

struct ImportedLabels {
  store::FinishedArray array;
  store::LabelKind kind = store::LabelKind::kClasses;
  int64_t width = 0;
  /// Unknown labels of labeled nodes.
  int64_t num_unknown = 0;
};

/// Writes labels as store/labels.h has them. INVALID_ARGUMENT, naming the first
/// wrong element, for values that are no labels, and if no node has a label:
///
/// * kClasses: whole numbers in 0 .. kMaxClasses - 1; -1 and NaN mean
///   unlabeled;
/// * kMultiLabel: every element is 0, 1, or NaN for an unknown label; a row of
///   NaN is unlabeled;
/// * kTargets: finite as float32; a row of NaN is unlabeled.
///
/// REQUIRES: CheckLabelHeader.
absl::StatusOr<ImportedLabels> ImportLabels(
    ImportContext& context, ArrayReader& labels,
    std::optional<store::LabelKind> wanted, const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_LABEL_IMPORT_H_
