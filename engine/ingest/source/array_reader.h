#ifndef HEARTH_ENGINE_INGEST_SOURCE_ARRAY_READER_H_
#define HEARTH_ENGINE_INGEST_SOURCE_ARRAY_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/store/npy.h"

/// Arrays of a source: ArrayReader reads any element, RowSource the rows of a
/// matrix in blocks. Both read on the caller's thread; neither checks values.

namespace hearth::ingest {

/// Opens a file of a source. INVALID_ARGUMENT if it is missing or a link to
/// nothing, and the message says which; otherwise errors of
/// io::FileSystem::OpenForRead.
absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenSourceFile(
    io::FileSystem& files, const std::string& path);

/// INVALID_ARGUMENT if `path` is a link to nothing. REQUIRES: nothing can be
/// opened at `path`.
absl::Status CheckIsNoLink(io::FileSystem& files, const std::string& path);

/// Reads an array of a source block by block, whatever its element type and
/// file: .npy, raw, or part of an archive. Positions count elements in the
/// order of the file. Thread-compatible.
class ArrayReader {
 public:
  /// Opens the .npy file at `path`. INVALID_ARGUMENT if there is no such file;
  /// otherwise errors of ReadNpyHeader.
  static absl::StatusOr<std::unique_ptr<ArrayReader>> OpenNpy(
      io::FileSystem& files, const std::string& path);

  /// Opens the file at `path`, which holds nothing but the elements that
  /// `header` describes. INVALID_ARGUMENT if there is no such file, DATA_LOSS
  /// if it is too short, INVALID_ARGUMENT if it is too long.
  static absl::StatusOr<std::unique_ptr<ArrayReader>> OpenRaw(
      io::FileSystem& files, const std::string& path,
      store::ArrayHeader header);

  /// Reads an .npy file that lies within another file, such as a member of an
  /// archive.
  static absl::StatusOr<std::unique_ptr<ArrayReader>> ReadNpy(
      std::unique_ptr<io::ReadableFile> file);

  /// Reads the elements that `header` describes in an open file, which may hold
  /// more bytes after them. DATA_LOSS if the file is too short.
  static absl::StatusOr<std::unique_ptr<ArrayReader>> ReadRaw(
      std::unique_ptr<io::ReadableFile> file, store::ArrayHeader header);

  const store::ArrayHeader& header() const { return header_; }
  const std::string& path() const { return file_->path(); }
  /// Name of the file, without its folders.
  std::string name() const {
    return path().substr(path().find_last_of('/') + 1);
  }
  /// Size and times of the file when it was opened.
  const io::FileInfo& info() const { return info_; }
  /// Whether the array has a file of its own, of its header and elements alone;
  /// only such arrays can be registered in place.
  bool has_own_file() const { return has_own_file_; }

  /// Reads elements of 2 bytes as bfloat16, for which numpy has no type.
  /// REQUIRES: the type is uint16.
  void TakeAsBFloat16() {
    header_.type.kind = store::ElementType::Kind::kBFloat;
  }

  /// Reads a list of numbers as a matrix of one column. REQUIRES: one
  /// dimension.
  void TakeAsColumn() { header_.shape.push_back(1); }

  /// Raw bytes of the elements from `first` on.
  absl::Status ReadBytes(int64_t first, absl::Span<std::byte> out);

  /// Elements from `first` on as integers. INVALID_ARGUMENT for an element
  /// beyond 2^63 - 1. REQUIRES: the type is not float.
  absl::Status ReadInts(int64_t first, absl::Span<int64_t> out);

  /// Elements from `first` on as doubles. REQUIRES: the type is float.
  absl::Status ReadFloats(int64_t first, absl::Span<double> out);

  /// Bytes of the file before the first element.
  absl::StatusOr<std::vector<std::byte>> ReadHeaderBytes();

  /// FAILED_PRECONDITION if the file has changed since it was opened.
  absl::Status CheckUnchanged();

  /// INVALID_ARGUMENT with "`path`: [0, 5] `problem`": the element at
  /// `position`, by its index as numpy writes it.
  absl::Status ErrorAt(int64_t position, absl::string_view problem) const;

  /// INVALID_ARGUMENT with "`path`: `problem`".
  absl::Status Error(absl::string_view problem) const;

 private:
  ArrayReader(std::unique_ptr<io::ReadableFile> file, store::ArrayHeader header,
              io::FileInfo info)
      : file_(std::move(file)), header_(std::move(header)), info_(info) {}

  template <typename Stored, typename Wanted>
  absl::Status ReadAs(int64_t first, absl::Span<Wanted> out);

  const std::unique_ptr<io::ReadableFile> file_;
  store::ArrayHeader header_;
  const io::FileInfo info_;
  bool has_own_file_ = false;
  std::vector<std::byte> raw_;
};

/// Consecutive rows of a matrix, row-major: as read, or as they are stored.
struct RowBlock {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  absl::Span<const std::byte> bytes;
};

/// Reads a matrix in blocks of rows: past the page cache if the matrix is a
/// file of its own in C order. A matrix in Fortran order is transposed; each of
/// its blocks takes one read per column, so its blocks are as large as the
/// limit allows. Single-owner.
class RowSource {
 public:
  /// Cuts `matrix` into blocks that take at most `block_limit_bytes`, both as
  /// read and as stored with items of `stored_item_bytes`. RESOURCE_EXHAUSTED
  /// if a single row is larger. Each block but the last is stored as a multiple
  /// of 4 KiB if the limit allows it. FAILED_PRECONDITION if the file has
  /// changed since it was opened.
  static absl::StatusOr<RowSource> Open(io::FileSystem& files,
                                        ArrayReader& matrix,
                                        int64_t stored_item_bytes,
                                        uint64_t block_limit_bytes);

  int64_t num_blocks() const {
    return (num_rows_ + block_rows_ - 1) / block_rows_;
  }

  /// Most bytes of the rows of one block: as read, and as stored.
  uint64_t block_bytes() const {
    return static_cast<uint64_t>(block_rows_) * row_bytes_;
  }
  uint64_t stored_block_bytes() const {
    return static_cast<uint64_t>(block_rows_ * num_columns_ *
                                 stored_item_bytes_);
  }

  /// Bytes of the memory that Read needs.
  uint64_t memory_bytes() const;

  /// Reads block number `block` into `memory`, which is aligned to 4 KiB. The
  /// rows that are returned lie in `memory`, their items aligned.
  absl::StatusOr<RowBlock> Read(int64_t block, absl::Span<std::byte> memory);

 private:
  RowSource(ArrayReader& matrix, std::unique_ptr<io::ReadableFile> scanned,
            int64_t block_rows, int64_t stored_item_bytes);

  absl::Status ReadRows(const RowBlock& block, absl::Span<std::byte> rows);

  ArrayReader& matrix_;
  /// File for reads past the page cache; null if the matrix reads through its
  /// own file.
  std::unique_ptr<io::ReadableFile> scanned_;
  int64_t num_rows_;
  int64_t num_columns_;
  int64_t item_bytes_;
  int64_t stored_item_bytes_;
  uint64_t row_bytes_;
  int64_t block_rows_;
  /// Buffer for one column of a block of a matrix in Fortran order.
  std::vector<std::byte> column_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_ARRAY_READER_H_
