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

namespace hearth::ingest {

/// Reads the rows of an array of one or two dimensions as doubles, whatever
/// its type and order. Integers beyond 2^53 are rounded. Thread-compatible.
class LabelRows {
 public:
  /// RESOURCE_EXHAUSTED if a row does not fit an eighth of the memory limit.
  static absl::StatusOr<LabelRows> Open(const ImportContext& context,
                                        ArrayReader& array);

  int64_t num_rows() const { return num_rows_; }
  /// Columns; 1 of an array of one dimension.
  int64_t width() const { return width_; }
  /// Rows that are read at once.
  int64_t block_rows() const { return block_rows_; }

  /// Rows `first` .. `first` + `count` - 1, row-major, valid until the next
  /// call. REQUIRES: count <= block_rows().
  absl::StatusOr<absl::Span<const double>> Read(int64_t first, int64_t count);

  /// Whether the row at `values` is NaN throughout. INVALID_ARGUMENT naming
  /// the first NaN if it is one only in part.
  absl::StatusOr<bool> IsUnlabeled(int64_t row, const double* values) const;

  /// INVALID_ARGUMENT naming the element: "labels.npy: [5, 2] is 7`problem`".
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

/// More classes, labels or targets are taken for a mistake.
inline constexpr int64_t kMaxClasses = 10'000'000;
inline constexpr int64_t kMaxLabelColumns = 1 << 20;

/// The kind of labels in an array: `wanted`, or told from its shape: classes in
/// one column, multi-label in several.
store::LabelKind KindOfLabels(const store::ArrayHeader& header,
                              std::optional<store::LabelKind> wanted);

/// OK if `labels` has shape (N,) or (N, 1) for classes, or (N, C) as well for
/// others.
absl::Status CheckLabelHeader(const ArrayReader& labels, int64_t num_nodes,
                              std::optional<store::LabelKind> wanted);

/// Bytes of the array that ImportLabels writes at most: of several labels,
/// where they may be partial. REQUIRES: CheckLabelHeader.
uint64_t ImportedLabelBytes(const store::ArrayHeader& header,
                            std::optional<store::LabelKind> wanted);

struct ImportedLabels {
  store::FinishedArray array;
  store::LabelKind kind = store::LabelKind::kClasses;
  int64_t width = 0;
  /// Labels of labeled nodes that are not known.
  int64_t num_unknown = 0;
};

/// Writes labels in the format of labels.h. INVALID_ARGUMENT, naming the first
/// offending element, for what is no label, and if there is none at all:
///
/// * kClasses are whole numbers in 0 .. kMaxClasses - 1; -1 and NaN mean
///   unlabeled;
/// * of kMultiLabel every element is 0 or 1, or NaN for a label that is not
///   known; a row of NaN is unlabeled;
/// * kTargets are finite as float32; a row of NaN is unlabeled.
///
/// REQUIRES: CheckLabelHeader.
absl::StatusOr<ImportedLabels> ImportLabels(
    ImportContext& context, ArrayReader& labels,
    std::optional<store::LabelKind> wanted, const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_LABEL_IMPORT_H_
