#include "engine/ingest/source/row_source.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

// In C order nothing is gained by more.
constexpr uint64_t kMaxSequentialBytes = 4 << 20;
// Alignment that direct reads and writes need.
constexpr uint64_t kPageBytes = 4096;

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
                   int64_t num_columns, int64_t index, std::byte* block) {
  const int64_t num_rows = static_cast<int64_t>(column.size()) / item_bytes;
  switch (item_bytes) {
    case 1:
      return Scatter<uint8_t>(column.data(), num_rows, num_columns, index,
                              block);
    case 2:
      return Scatter<uint16_t>(column.data(), num_rows, num_columns, index,
                               block);
    case 4:
      return Scatter<uint32_t>(column.data(), num_rows, num_columns, index,
                               block);
    default:
      return Scatter<uint64_t>(column.data(), num_rows, num_columns, index,
                               block);
  }
}

/// The file of `matrix` to be read past the page cache.
absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenScanned(
    io::FileSystem& files, const ArrayReader& matrix) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(matrix.path()));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  if (info.size_bytes == matrix.info().size_bytes &&
      info.modified == matrix.info().modified) {
    return file;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(matrix.path(), ": was changed while it was read"));
}

/// Rows of a block: as many as `wanted_bytes` hold, and if `limit_bytes` allow
/// it so many that they take whole pages as they are stored.
int64_t BlockRows(uint64_t row_bytes, uint64_t stored_row_bytes,
                  uint64_t wanted_bytes, uint64_t limit_bytes) {
  const uint64_t rows = std::max<uint64_t>(1, wanted_bytes / row_bytes);
  const uint64_t unit = kPageBytes / std::gcd(stored_row_bytes, kPageBytes);
  if (rows >= unit) return static_cast<int64_t>(rows - rows % unit);
  const bool fits = unit <= limit_bytes / row_bytes;
  return static_cast<int64_t>(fits ? unit : rows);
}

}  // namespace

RowSource::RowSource(ArrayReader& matrix,
                     std::unique_ptr<io::ReadableFile> scanned,
                     int64_t block_rows, int64_t stored_item_bytes)
    : matrix_(matrix),
      scanned_(std::move(scanned)),
      num_rows_(matrix.header().shape[0]),
      num_columns_(matrix.header().shape[1]),
      item_bytes_(matrix.header().type.item_bytes),
      stored_item_bytes_(stored_item_bytes),
      row_bytes_(static_cast<uint64_t>(num_columns_ * item_bytes_)),
      block_rows_(block_rows) {}

absl::StatusOr<RowSource> RowSource::Open(io::FileSystem& files,
                                          ArrayReader& matrix,
                                          int64_t stored_item_bytes,
                                          uint64_t block_limit_bytes) {
  const store::ArrayHeader& header = matrix.header();
  const auto columns = static_cast<uint64_t>(header.shape[1]);
  const uint64_t stored_row_bytes =
      columns * static_cast<uint64_t>(stored_item_bytes);
  const uint64_t row_bytes =
      std::max(columns * static_cast<uint64_t>(header.type.item_bytes),
               stored_row_bytes);
  if (row_bytes > block_limit_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(matrix.path(), ": a row has ", FormatByteSize(row_bytes),
                     ", the import's memory limit leaves ",
                     FormatByteSize(block_limit_bytes)));
  }
  const uint64_t wanted_bytes =
      header.fortran_order ? block_limit_bytes
                           : std::min(block_limit_bytes, kMaxSequentialBytes);
  const int64_t block_rows =
      BlockRows(row_bytes, stored_row_bytes, wanted_bytes, block_limit_bytes);
  std::unique_ptr<io::ReadableFile> scanned;
  const bool aligned =
      header.data_offset % static_cast<uint64_t>(header.type.item_bytes) == 0;
  if (matrix.has_own_file() && !header.fortran_order && aligned) {
    HEARTH_ASSIGN_OR_RETURN(scanned, OpenScanned(files, matrix));
  }
  return RowSource(matrix, std::move(scanned),
                   std::min(block_rows, header.shape[0]), stored_item_bytes);
}

uint64_t RowSource::memory_bytes() const {
  // Around rows that are read with the pages they lie in.
  return block_bytes() + (scanned_ == nullptr ? 0 : 2 * kPageBytes);
}

absl::StatusOr<RowBlock> RowSource::Read(int64_t block,
                                         absl::Span<std::byte> memory) {
  RowBlock rows;
  rows.first_row = block * block_rows_;
  rows.num_rows = std::min(block_rows_, num_rows_ - rows.first_row);
  const uint64_t size = static_cast<uint64_t>(rows.num_rows) * row_bytes_;
  if (scanned_ == nullptr) {
    rows.bytes = memory.first(size);
    HEARTH_RETURN_IF_ERROR(ReadRows(rows, memory.first(size)));
    return rows;
  }
  const uint64_t begin = matrix_.header().data_offset +
                         static_cast<uint64_t>(rows.first_row) * row_bytes_;
  const uint64_t page_begin = begin - begin % kPageBytes;
  const uint64_t page_end =
      std::min((begin + size + kPageBytes - 1) / kPageBytes * kPageBytes,
               matrix_.info().size_bytes);
  HEARTH_RETURN_IF_ERROR(
      scanned_->Read(page_begin, memory.first(page_end - page_begin)));
  rows.bytes = memory.subspan(begin - page_begin, size);
  return rows;
}

absl::Status RowSource::ReadRows(const RowBlock& block,
                                 absl::Span<std::byte> rows) {
  if (!matrix_.header().fortran_order) {
    return matrix_.ReadBytes(block.first_row * num_columns_, rows);
  }
  column_.resize(static_cast<size_t>(block.num_rows * item_bytes_));
  for (int64_t i = 0; i < num_columns_; ++i) {
    HEARTH_RETURN_IF_ERROR(matrix_.ReadBytes(i * num_rows_ + block.first_row,
                                             absl::MakeSpan(column_)));
    ScatterColumn(column_, item_bytes_, num_columns_, i, rows.data());
  }
  return absl::OkStatus();
}

}  // namespace hearth::ingest
