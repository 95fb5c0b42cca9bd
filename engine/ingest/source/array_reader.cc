#include "engine/ingest/source/array_reader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"
#include "engine/store/npy.h"

namespace hearth::ingest {

namespace {

// Elements that are converted in one step.
constexpr size_t kConvertedElements = 32 << 10;

/// A stored float16.
struct Half {
  uint16_t bits;
  explicit operator double() const { return store::Float16ToDouble(bits); }
};

std::vector<int64_t> IndexOf(const store::ArrayHeader& header,
                             int64_t position) {
  std::vector<int64_t> index(header.shape.size());
  for (size_t i = 0; i < index.size(); ++i) {
    // The dimension that varies fastest in the file comes first.
    const size_t axis = header.fortran_order ? i : index.size() - 1 - i;
    index[axis] = position % header.shape[axis];
    position /= header.shape[axis];
  }
  return index;
}

/// A stored bfloat16.
struct BFloat {
  uint16_t bits;
  explicit operator double() const { return store::BFloat16ToFloat(bits); }
};

/// Offset of the byte after the last element; nullopt if it overflows.
std::optional<uint64_t> EndOf(const store::ArrayHeader& header) {
  const auto bytes = store::ArrayBytes(header.shape, header.type.item_bytes);
  if (!bytes.has_value()) return std::nullopt;
  const uint64_t end = header.data_offset + static_cast<uint64_t>(*bytes);
  if (end < header.data_offset) return std::nullopt;
  return end;
}

std::string Describe(const store::ArrayHeader& header) {
  return absl::StrCat(Name(header.type), " elements of shape ",
                      store::FormatShape(header.shape));
}

}  // namespace

absl::Status CheckIsNoLink(io::FileSystem& files, const std::string& path) {
  // A path that its folder lists, but that cannot be opened, is a link to
  // nothing.
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::string>> names =
      files.List(slash == 0 ? "/" : path.substr(0, slash));
  if (!names.ok() || std::find(names->begin(), names->end(),
                               path.substr(slash + 1)) == names->end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is a link to nothing"));
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenSourceFile(
    io::FileSystem& files, const std::string& path) {
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> file =
      files.OpenForRead(path);
  if (!absl::IsNotFound(file.status())) return file;
  HEARTH_RETURN_IF_ERROR(CheckIsNoLink(files, path));
  return absl::InvalidArgumentError(absl::StrCat(path, ": is missing"));
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ArrayReader::OpenNpy(
    io::FileSystem& files, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          OpenSourceFile(files, path));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> reader,
                          ReadNpy(std::move(file)));
  reader->has_own_file_ = true;
  return reader;
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ArrayReader::OpenRaw(
    io::FileSystem& files, const std::string& path, store::ArrayHeader header) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          OpenSourceFile(files, path));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> reader,
                          ReadRaw(std::move(file), std::move(header)));
  const uint64_t size = reader->info_.size_bytes;
  const uint64_t needed = *EndOf(reader->header_);
  if (needed != size) {
    return reader->Error(absl::StrCat(
        "has ", size, " bytes; ", Describe(reader->header_), " take ", needed));
  }
  reader->has_own_file_ = true;
  return reader;
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ArrayReader::ReadNpy(
    std::unique_ptr<io::ReadableFile> file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  HEARTH_ASSIGN_OR_RETURN(store::ArrayHeader header,
                          store::ReadNpyHeader(*file));
  return std::unique_ptr<ArrayReader>(
      new ArrayReader(std::move(file), std::move(header), info));
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ArrayReader::ReadRaw(
    std::unique_ptr<io::ReadableFile> file, store::ArrayHeader header) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  const std::optional<uint64_t> needed = EndOf(header);
  if (!needed.has_value() || *needed > info.size_bytes) {
    return absl::DataLossError(absl::StrCat(
        file->path(), ": has ", info.size_bytes, " bytes, too few for ",
        Describe(header), " from byte ", header.data_offset, " on"));
  }
  return std::unique_ptr<ArrayReader>(
      new ArrayReader(std::move(file), std::move(header), info));
}

absl::Status ArrayReader::ReadBytes(int64_t first, absl::Span<std::byte> out) {
  const uint64_t offset =
      header_.data_offset + static_cast<uint64_t>(first) *
                                static_cast<uint64_t>(header_.type.item_bytes);
  return file_->Read(offset, out);
}

template <typename Stored, typename Wanted>
absl::Status ArrayReader::ReadAs(int64_t first, absl::Span<Wanted> out) {
  if constexpr (std::is_integral_v<Stored> && std::is_integral_v<Wanted> &&
                sizeof(Stored) == sizeof(Wanted)) {
    return ReadBytes(first, {reinterpret_cast<std::byte*>(out.data()),
                             out.size() * sizeof(Wanted)});
  }
  while (!out.empty()) {
    const size_t count = std::min(out.size(), kConvertedElements);
    raw_.resize(count * sizeof(Stored));
    HEARTH_RETURN_IF_ERROR(ReadBytes(first, absl::MakeSpan(raw_)));
    for (size_t i = 0; i < count; ++i) {
      Stored value;
      std::memcpy(&value, raw_.data() + i * sizeof(Stored), sizeof(Stored));
      out[i] = static_cast<Wanted>(value);
    }
    first += static_cast<int64_t>(count);
    out.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status ArrayReader::ReadInts(int64_t first, absl::Span<int64_t> out) {
  const int64_t bytes = header_.type.item_bytes;
  if (header_.type.kind == store::ElementType::Kind::kInt) {
    switch (bytes) {
      case 1:
        return ReadAs<int8_t>(first, out);
      case 2:
        return ReadAs<int16_t>(first, out);
      case 4:
        return ReadAs<int32_t>(first, out);
      default:
        return ReadAs<int64_t>(first, out);
    }
  }
  switch (bytes) {
    case 1:
      return ReadAs<uint8_t>(first, out);
    case 2:
      return ReadAs<uint16_t>(first, out);
    case 4:
      return ReadAs<uint32_t>(first, out);
    default:
      break;
  }
  HEARTH_RETURN_IF_ERROR(ReadAs<uint64_t>(first, out));
  const auto negative = std::find_if(out.begin(), out.end(),
                                     [](int64_t value) { return value < 0; });
  if (negative == out.end()) return absl::OkStatus();
  return ErrorAt(first + (negative - out.begin()),
                 absl::StrCat("is ", static_cast<uint64_t>(*negative),
                              ", beyond 2^63 - 1"));
}

absl::Status ArrayReader::ReadFloats(int64_t first, absl::Span<double> out) {
  if (header_.type.kind == store::ElementType::Kind::kBFloat) {
    return ReadAs<BFloat>(first, out);
  }
  switch (header_.type.item_bytes) {
    case 2:
      return ReadAs<Half>(first, out);
    case 4:
      return ReadAs<float>(first, out);
    default:
      return ReadAs<double>(first, out);
  }
}

absl::StatusOr<std::vector<std::byte>> ArrayReader::ReadHeaderBytes() {
  std::vector<std::byte> bytes(header_.data_offset);
  HEARTH_RETURN_IF_ERROR(file_->Read(0, absl::MakeSpan(bytes)));
  return bytes;
}

absl::Status ArrayReader::CheckUnchanged() {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo now, file_->Info());
  if (now.size_bytes == info_.size_bytes && now.modified == info_.modified) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path(), ": was changed while it was read"));
}

absl::Status ArrayReader::ErrorAt(int64_t position,
                                  absl::string_view problem) const {
  return absl::InvalidArgumentError(absl::StrCat(
      path(), ": [", absl::StrJoin(IndexOf(header_, position), ", "), "] ",
      problem));
}

absl::Status ArrayReader::Error(absl::string_view problem) const {
  return absl::InvalidArgumentError(absl::StrCat(path(), ": ", problem));
}

namespace {

// Blocks in C order are read at full speed from this size on.
constexpr uint64_t kMaxSequentialBytes = 4 << 20;
// Alignment of direct reads and writes.
constexpr uint64_t kPageBytes = 4096;

/// Writes the items of one column into a row-major block.
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

/// Opens the file of `matrix` for reads past the page cache.
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

/// Rows of one block: as many as fit `wanted_bytes`, rounded so that they fill
/// whole pages when stored; if that needs more bytes, up to `limit_bytes`.
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
  // Reads past the page cache start and end at page boundaries around the rows.
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
