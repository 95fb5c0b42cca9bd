#include "engine/ingest/import/label_import.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"
#include "engine/store/labels.h"

namespace hearth::ingest {

namespace {

// Blocks in C order are read at full speed from this size on.
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
  // In Fortran order each block takes one read per column, so blocks are as
  // large as the limit allows.
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
  // Shows integers as they are stored: the double may be rounded.
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

namespace {

constexpr int32_t kUnlabeled = -1;

int64_t CountNaN(const double* values, int64_t width) {
  return std::count_if(values, values + width,
                       [](double value) { return std::isnan(value); });
}

/// Converts the rows of one kind of labels.
class LabelColumns {
 public:
  virtual ~LabelColumns() = default;
  virtual store::DType dtype() const = 0;
  virtual std::vector<int64_t> shape(int64_t num_rows) const = 0;
  /// Converts the row at `values` and keeps it until Write; returns whether it
  /// is labeled.
  virtual absl::StatusOr<bool> Convert(int64_t row, const double* values) = 0;
  /// Writes the converted rows, and forgets them.
  virtual absl::Status Write(store::ArrayWriter& writer) = 0;
  virtual int64_t width() const = 0;
  virtual int64_t num_unknown() const { return 0; }
};

class ClassColumn final : public LabelColumns {
 public:
  ClassColumn(const LabelRows& rows, bool is_float)
      : rows_(rows), is_float_(is_float) {}

  store::DType dtype() const override { return store::DType::kInt32; }
  std::vector<int64_t> shape(int64_t num_rows) const override {
    return {num_rows};
  }

  absl::StatusOr<bool> Convert(int64_t row, const double* values) override {
    const double value = *values;
    int32_t label = kUnlabeled;
    if (!std::isnan(value)) {
      HEARTH_RETURN_IF_ERROR(Check(row, value));
      label = static_cast<int32_t>(value);
    }
    block_.push_back(label);
    num_classes_ = std::max<int64_t>(num_classes_, label + int64_t{1});
    return label != kUnlabeled;
  }

  absl::Status Write(store::ArrayWriter& writer) override {
    HEARTH_RETURN_IF_ERROR(
        writer.AppendValues<int32_t>(absl::MakeConstSpan(block_)));
    block_.clear();
    return absl::OkStatus();
  }

  int64_t width() const override { return num_classes_; }

 private:
  absl::Status Check(int64_t row, double value) const {
    if (value < kUnlabeled || value >= static_cast<double>(kMaxClasses)) {
      return rows_.ErrorAt(
          row, 0,
          absl::StrCat("; labels are 0 .. ", kMaxClasses - 1, ", or -1",
                       is_float_ ? " or NaN" : "", " for unlabeled nodes"));
    }
    if (value == std::floor(value)) return absl::OkStatus();
    return rows_.ErrorAt(row, 0,
                         ", not a whole number; --labels targets takes numbers "
                         "to predict");
  }

  const LabelRows& rows_;
  const bool is_float_;
  int64_t num_classes_ = 0;
  std::vector<int32_t> block_;
};

class BitColumns final : public LabelColumns {
 public:
  BitColumns(const LabelRows& rows, bool partial)
      : rows_(rows),
        known_begin_(store::MultiLabelRowBytes(rows.width())),
        row_bytes_(store::MultiLabelRowBytes(rows.width(), partial)) {}

  store::DType dtype() const override { return store::DType::kUint8; }
  std::vector<int64_t> shape(int64_t num_rows) const override {
    return {num_rows, row_bytes_};
  }

  absl::StatusOr<bool> Convert(int64_t row, const double* values) override {
    const size_t begin = block_.size();
    block_.resize(begin + static_cast<size_t>(row_bytes_));
    const int64_t unknown = CountNaN(values, rows_.width());
    if (unknown == rows_.width()) return false;
    num_unknown_ += unknown;
    uint8_t* const bits = block_.data() + begin;
    const auto set = [](uint8_t* plane, int64_t bit) {
      plane[bit / 8] |= static_cast<uint8_t>(1 << (bit % 8));
    };
    for (int64_t i = 0; i < rows_.width(); ++i) {
      if (std::isnan(values[i])) continue;
      if (values[i] != 0 && values[i] != 1) {
        return rows_.ErrorAt(row, i,
                             "; of several labels each is 0 or 1 (--labels "
                             "targets takes numbers to predict)");
      }
      if (values[i] == 1) set(bits, i);
      if (row_bytes_ > known_begin_) set(bits + known_begin_, i);
    }
    set(bits, rows_.width());
    return true;
  }

  absl::Status Write(store::ArrayWriter& writer) override {
    HEARTH_RETURN_IF_ERROR(
        writer.AppendValues<uint8_t>(absl::MakeConstSpan(block_)));
    block_.clear();
    return absl::OkStatus();
  }

  int64_t width() const override { return rows_.width(); }
  int64_t num_unknown() const override { return num_unknown_; }

 private:
  const LabelRows& rows_;
  /// Index in a row of the first bit that tells which labels are known.
  const int64_t known_begin_;
  const int64_t row_bytes_;
  int64_t num_unknown_ = 0;
  std::vector<uint8_t> block_;
};

class TargetColumns final : public LabelColumns {
 public:
  explicit TargetColumns(const LabelRows& rows) : rows_(rows) {}

  store::DType dtype() const override { return store::DType::kFloat32; }
  std::vector<int64_t> shape(int64_t num_rows) const override {
    return {num_rows, rows_.width()};
  }

  absl::StatusOr<bool> Convert(int64_t row, const double* values) override {
    HEARTH_ASSIGN_OR_RETURN(const bool unlabeled,
                            rows_.IsUnlabeled(row, values));
    for (int64_t i = 0; i < rows_.width(); ++i) {
      const auto target = unlabeled ? std::numeric_limits<float>::quiet_NaN()
                                    : static_cast<float>(values[i]);
      if (std::isinf(target)) {
        return rows_.ErrorAt(row, i, ", more than a float32 can hold");
      }
      block_.push_back(target);
    }
    return !unlabeled;
  }

  absl::Status Write(store::ArrayWriter& writer) override {
    HEARTH_RETURN_IF_ERROR(
        writer.AppendValues<float>(absl::MakeConstSpan(block_)));
    block_.clear();
    return absl::OkStatus();
  }

  int64_t width() const override { return rows_.width(); }

 private:
  const LabelRows& rows_;
  std::vector<float> block_;
};

std::unique_ptr<LabelColumns> NewColumns(store::LabelKind kind,
                                         const LabelRows& rows, bool is_float,
                                         bool partial) {
  switch (kind) {
    case store::LabelKind::kClasses:
      break;
    case store::LabelKind::kMultiLabel:
      return std::make_unique<BitColumns>(rows, partial);
    case store::LabelKind::kTargets:
      return std::make_unique<TargetColumns>(rows);
  }
  return std::make_unique<ClassColumn>(rows, is_float);
}

/// Whether any row has both NaN and other values.
absl::StatusOr<bool> ArePartial(ImportContext& context, LabelRows& rows) {
  for (int64_t first = 0; first < rows.num_rows(); first += rows.block_rows()) {
    const int64_t count = std::min(rows.block_rows(), rows.num_rows() - first);
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const double> values,
                            rows.Read(first, count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t unknown =
          CountNaN(values.data() + i * rows.width(), rows.width());
      if (unknown > 0 && unknown < rows.width()) return true;
    }
    HEARTH_RETURN_IF_ERROR(context.Advance(0));
  }
  return false;
}

/// Converts and writes all rows; returns whether any of them is labeled.
absl::StatusOr<bool> WriteRows(ImportContext& context, LabelRows& rows,
                               LabelColumns& columns,
                               store::ArrayWriter& writer) {
  bool any_labeled = false;
  for (int64_t first = 0; first < rows.num_rows(); first += rows.block_rows()) {
    const int64_t count = std::min(rows.block_rows(), rows.num_rows() - first);
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const double> values,
                            rows.Read(first, count));
    for (int64_t i = 0; i < count; ++i) {
      HEARTH_ASSIGN_OR_RETURN(
          const bool labeled,
          columns.Convert(first + i, values.data() + i * rows.width()));
      any_labeled |= labeled;
    }
    HEARTH_RETURN_IF_ERROR(columns.Write(writer));
    HEARTH_RETURN_IF_ERROR(context.Advance(values.size() * sizeof(int64_t)));
  }
  return any_labeled;
}

}  // namespace

store::LabelKind KindOfLabels(const store::ArrayHeader& header,
                              std::optional<store::LabelKind> wanted) {
  if (wanted.has_value()) return *wanted;
  return WidthOf(header) > 1 ? store::LabelKind::kMultiLabel
                             : store::LabelKind::kClasses;
}

absl::Status CheckLabelHeader(const ArrayReader& labels, int64_t num_nodes,
                              std::optional<store::LabelKind> wanted) {
  const std::vector<int64_t>& shape = labels.header().shape;
  const bool one_column = wanted == store::LabelKind::kClasses;
  const bool has_rows =
      (shape.size() == 1 || shape.size() == 2) && shape[0] == num_nodes;
  if (!has_rows || WidthOf(labels.header()) == 0 ||
      (one_column && WidthOf(labels.header()) != 1)) {
    return labels.Error(
        absl::StrCat("has shape ", store::FormatShape(shape), "; with ",
                     num_nodes, " nodes it must be (", num_nodes, ",)",
                     one_column ? ", as of classes"
                                : absl::StrCat(" or, of several labels, (",
                                               num_nodes, ", labels)")));
  }
  if (WidthOf(labels.header()) <= kMaxLabelColumns) return absl::OkStatus();
  return labels.Error(absl::StrCat("has ", shape[1], " columns; at most ",
                                   kMaxLabelColumns, " are possible"));
}

uint64_t ImportedLabelBytes(const store::ArrayHeader& header,
                            std::optional<store::LabelKind> wanted) {
  const auto rows = static_cast<uint64_t>(header.shape[0]);
  const int64_t width = WidthOf(header);
  switch (KindOfLabels(header, wanted)) {
    case store::LabelKind::kClasses:
      return rows * sizeof(int32_t);
    case store::LabelKind::kMultiLabel:
      return rows * static_cast<uint64_t>(store::MultiLabelRowBytes(
                        width, header.type.IsFloat()));
    case store::LabelKind::kTargets:
      return rows * static_cast<uint64_t>(width) * sizeof(float);
  }
  return 0;
}

absl::StatusOr<ImportedLabels> ImportLabels(
    ImportContext& context, ArrayReader& labels,
    std::optional<store::LabelKind> wanted, const store::ArrayPlace& place) {
  HEARTH_ASSIGN_OR_RETURN(LabelRows rows, LabelRows::Open(context, labels));
  ImportedLabels imported;
  imported.kind = KindOfLabels(labels.header(), wanted);
  const bool is_float = labels.header().type.IsFloat();
  bool partial = false;
  if (imported.kind == store::LabelKind::kMultiLabel && is_float) {
    HEARTH_ASSIGN_OR_RETURN(partial, ArePartial(context, rows));
  }
  const std::unique_ptr<LabelColumns> columns =
      NewColumns(imported.kind, rows, is_float, partial);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::ArrayWriter> writer,
      store::ArrayWriter::Create(
          context.files(), place, "labels", columns->dtype(),
          columns->shape(rows.num_rows()), store::kStreamAccess));
  HEARTH_ASSIGN_OR_RETURN(const bool any_labeled,
                          WriteRows(context, rows, *columns, *writer));
  if (!any_labeled) return labels.Error("labels no node at all");
  imported.width = columns->width();
  imported.num_unknown = columns->num_unknown();
  HEARTH_ASSIGN_OR_RETURN(imported.array, writer->Finish());
  return imported;
}

}  // namespace hearth::ingest
