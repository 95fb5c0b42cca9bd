#include "engine/ingest/import/label_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

// In C order nothing is gained by more.
constexpr uint64_t kMaxSequentialBytes = 512 << 10;

int64_t WidthOf(const store::ArrayHeader& header) {
  return header.shape.size() == 1 ? 1 : header.shape[1];
}

}  // namespace

LabelRows::LabelRows(ArrayReader& array, int64_t block_rows)
    : array_(array),
      num_rows_(array.header().shape[0]),
      width_(WidthOf(array.header())),
      block_rows_(block_rows) {}

absl::StatusOr<LabelRows> LabelRows::Open(const ImportContext& context,
                                          ArrayReader& array) {
  const store::ArrayHeader& header = array.header();
  const uint64_t row_bytes =
      static_cast<uint64_t>(WidthOf(header)) * sizeof(double);
  const uint64_t memory = context.memory_limit_bytes() / 8;
  if (row_bytes > memory) {
    return absl::ResourceExhaustedError(absl::StrCat(
        array.path(), ": a row takes ", FormatByteSize(row_bytes),
        ", the import's memory limit leaves ", FormatByteSize(memory)));
  }
  // In Fortran order a block takes a read for each column.
  const uint64_t block_bytes =
      header.fortran_order ? memory : std::min(memory, kMaxSequentialBytes);
  const auto rows = static_cast<int64_t>(block_bytes / row_bytes);
  return LabelRows(array, std::max<int64_t>(1, rows));
}

absl::StatusOr<absl::Span<const double>> LabelRows::Read(int64_t first,
                                                         int64_t count) {
  values_.resize(static_cast<size_t>(count * width_));
  if (!array_.header().fortran_order) {
    HEARTH_RETURN_IF_ERROR(
        ReadElements(first * width_, absl::MakeSpan(values_)));
    return absl::MakeConstSpan(values_);
  }
  column_.resize(static_cast<size_t>(count));
  for (int64_t column = 0; column < width_; ++column) {
    HEARTH_RETURN_IF_ERROR(
        ReadElements(Position(first, column), absl::MakeSpan(column_)));
    for (int64_t row = 0; row < count; ++row) {
      values_[static_cast<size_t>(row * width_ + column)] =
          column_[static_cast<size_t>(row)];
    }
  }
  return absl::MakeConstSpan(values_);
}

absl::StatusOr<bool> LabelRows::IsUnlabeled(int64_t row,
                                            const double* values) const {
  const double* end = values + width_;
  const auto is_nan = [](double value) { return std::isnan(value); };
  const double* nan = std::find_if(values, end, is_nan);
  if (nan == end) return false;
  if (std::all_of(values, end, is_nan)) return true;
  return ErrorAt(row, nan - values,
                 "; only a whole row of NaN is an unlabeled node");
}

absl::Status LabelRows::ErrorAt(int64_t row, int64_t column,
                                absl::string_view problem) const {
  const int64_t position = Position(row, column);
  return array_.ErrorAt(position,
                        absl::StrCat("is ", TextAt(position), problem));
}

std::string LabelRows::TextAt(int64_t position) const {
  // As it is stored: a double may be a rounded integer.
  if (array_.header().type.IsFloat()) {
    double value = 0;
    array_.ReadFloats(position, absl::MakeSpan(&value, 1)).IgnoreError();
    return absl::StrCat(value);
  }
  int64_t value = 0;
  array_.ReadInts(position, absl::MakeSpan(&value, 1)).IgnoreError();
  return absl::StrCat(value);
}

absl::Status LabelRows::ReadElements(int64_t first, absl::Span<double> out) {
  if (array_.header().type.IsFloat()) return array_.ReadFloats(first, out);
  ints_.resize(out.size());
  HEARTH_RETURN_IF_ERROR(array_.ReadInts(first, absl::MakeSpan(ints_)));
  std::copy(ints_.begin(), ints_.end(), out.begin());
  return absl::OkStatus();
}

int64_t LabelRows::Position(int64_t row, int64_t column) const {
  return array_.header().fortran_order ? column * num_rows_ + row
                                       : row * width_ + column;
}

}  // namespace hearth::ingest
