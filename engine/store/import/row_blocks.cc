#include "engine/store/import/row_blocks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"

namespace hearth::store {
namespace {

// In C order nothing is gained by more.
constexpr uint64_t kMaxSequentialBytes = 4 << 20;

/// Writes the items of a column into a row-major block.
template <typename Item>
void Scatter(const std::byte* column, int64_t num_rows, int64_t num_columns,
             int64_t index, std::byte* block) {
  for (int64_t row = 0; row < num_rows; ++row) {
    std::memcpy(block + (row * num_columns + index) * sizeof(Item),
                column + row * sizeof(Item), sizeof(Item));
  }
}

void ScatterColumn(const std::vector<std::byte>& column, int64_t item_bytes,
                   int64_t num_columns, int64_t index,
                   std::vector<std::byte>& block) {
  const int64_t num_rows = static_cast<int64_t>(column.size()) / item_bytes;
  switch (item_bytes) {
    case 2:
      return Scatter<uint16_t>(column.data(), num_rows, num_columns, index,
                               block.data());
    case 4:
      return Scatter<uint32_t>(column.data(), num_rows, num_columns, index,
                               block.data());
    default:
      return Scatter<uint64_t>(column.data(), num_rows, num_columns, index,
                               block.data());
  }
}

/// Reads rows into a row-major block.
class RowReader {
 public:
  explicit RowReader(ArrayReader& matrix)
      : matrix_(matrix),
        num_rows_(matrix.header().shape[0]),
        num_columns_(matrix.header().shape[1]),
        item_bytes_(matrix.header().type.item_bytes) {}

  absl::Status Read(int64_t first_row, int64_t num_rows,
                    std::vector<std::byte>& block) {
    block.resize(static_cast<size_t>(num_rows * num_columns_ * item_bytes_));
    if (!matrix_.header().fortran_order) {
      return matrix_.ReadBytes(first_row * num_columns_, absl::MakeSpan(block));
    }
    column_.resize(static_cast<size_t>(num_rows * item_bytes_));
    for (int64_t i = 0; i < num_columns_; ++i) {
      HEARTH_RETURN_IF_ERROR(matrix_.ReadBytes(i * num_rows_ + first_row,
                                               absl::MakeSpan(column_)));
      ScatterColumn(column_, item_bytes_, num_columns_, i, block);
    }
    return absl::OkStatus();
  }

 private:
  ArrayReader& matrix_;
  const int64_t num_rows_;
  const int64_t num_columns_;
  const int64_t item_bytes_;
  std::vector<std::byte> column_;
};

/// An exponent of ones: NaN or infinity.
template <typename Bits>
int64_t FindAllOnesExponent(absl::Span<const std::byte> elements,
                            Bits exponent) {
  const size_t count = elements.size() / sizeof(Bits);
  const auto is_bad = [&](size_t i) {
    Bits bits;
    std::memcpy(&bits, elements.data() + i * sizeof(Bits), sizeof(Bits));
    return (bits & exponent) == exponent;
  };
  // Without a branch, for the compiler to make it wide.
  bool any = false;
  for (size_t i = 0; i < count; ++i) any |= is_bad(i);
  if (!any) return -1;
  size_t first = 0;
  while (!is_bad(first)) ++first;
  return static_cast<int64_t>(first);
}

template <typename Bits>
uint64_t ZeroAllOnesExponent(absl::Span<std::byte> elements, Bits exponent) {
  uint64_t zeroed = 0;
  for (size_t at = 0; at < elements.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, elements.data() + at, sizeof(Bits));
    if ((bits & exponent) != exponent) continue;
    std::memset(elements.data() + at, 0, sizeof(Bits));
    ++zeroed;
  }
  return zeroed;
}

}  // namespace

absl::Status ForEachRowBlock(
    ImportContext& context, ArrayReader& matrix,
    absl::FunctionRef<absl::Status(const RowBlock&)> visit) {
  const ArrayHeader& header = matrix.header();
  const int64_t num_rows = header.shape[0];
  const auto row_bytes =
      static_cast<uint64_t>(header.shape[1] * header.type.item_bytes);
  const uint64_t memory = context.memory_limit_bytes() / 8;
  if (row_bytes > memory) {
    return absl::ResourceExhaustedError(absl::StrCat(
        matrix.path(), ": a row has ", FormatByteSize(row_bytes),
        ", the import's memory limit leaves ", FormatByteSize(memory)));
  }
  const uint64_t block_bytes =
      header.fortran_order ? memory : std::min(memory, kMaxSequentialBytes);
  const int64_t block_rows =
      std::max<int64_t>(1, static_cast<int64_t>(block_bytes / row_bytes));
  RowReader reader(matrix);
  std::vector<std::byte> block;
  for (int64_t first = 0; first < num_rows; first += block_rows) {
    const int64_t count = std::min(block_rows, num_rows - first);
    HEARTH_RETURN_IF_ERROR(reader.Read(first, count, block));
    HEARTH_RETURN_IF_ERROR(visit({first, count, block}));
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size()));
  }
  return absl::OkStatus();
}

int64_t FindNonFinite(absl::Span<const std::byte> elements, ElementType type) {
  if (type.kind == ElementType::Kind::kBFloat) {
    return FindAllOnesExponent<uint16_t>(elements, 0x7F80);
  }
  switch (type.item_bytes) {
    case 2:
      return FindAllOnesExponent<uint16_t>(elements, 0x7C00);
    case 4:
      return FindAllOnesExponent<uint32_t>(elements, 0x7F800000);
    default:
      return FindAllOnesExponent<uint64_t>(elements, 0x7FF0000000000000);
  }
}

uint64_t ZeroNonFinite(absl::Span<std::byte> elements, ElementType type) {
  if (type.kind == ElementType::Kind::kBFloat) {
    return ZeroAllOnesExponent<uint16_t>(elements, 0x7F80);
  }
  switch (type.item_bytes) {
    case 2:
      return ZeroAllOnesExponent<uint16_t>(elements, 0x7C00);
    case 4:
      return ZeroAllOnesExponent<uint32_t>(elements, 0x7F800000);
    default:
      return ZeroAllOnesExponent<uint64_t>(elements, 0x7FF0000000000000);
  }
}

}  // namespace hearth::store
