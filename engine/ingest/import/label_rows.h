#ifndef HEARTH_ENGINE_INGEST_IMPORT_LABEL_ROWS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_LABEL_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_LABEL_ROWS_H_
