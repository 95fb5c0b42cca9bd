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

namespace hearth::ingest {

/// Opens a file of a source. INVALID_ARGUMENT, saying so, if it is missing or a
/// link to nothing; else as io::FileSystem::OpenForRead.
absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenSourceFile(
    io::FileSystem& files, const std::string& path);

/// INVALID_ARGUMENT if `path`, which leads to nothing, is a link.
absl::Status CheckIsNoLink(io::FileSystem& files, const std::string& path);

/// Reads a foreign array block by block, whatever its element type and file:
/// .npy, raw, or a part of an archive. Positions count elements in the order of
/// the file. Thread-compatible.
class ArrayReader {
 public:
  /// The .npy file at `path`. INVALID_ARGUMENT if there is no such file; else
  /// as ReadNpyHeader.
  static absl::StatusOr<std::unique_ptr<ArrayReader>> OpenNpy(
      io::FileSystem& files, const std::string& path);

  /// The elements that `header` describes in the file at `path`, which is no
  /// .npy. INVALID_ARGUMENT if there is no such file; DATA_LOSS if it is too
  /// short, and INVALID_ARGUMENT if anything follows the elements.
  static absl::StatusOr<std::unique_ptr<ArrayReader>> OpenRaw(
      io::FileSystem& files, const std::string& path,
      store::ArrayHeader header);

  /// An .npy file within another, such as a member of an archive.
  static absl::StatusOr<std::unique_ptr<ArrayReader>> ReadNpy(
      std::unique_ptr<io::ReadableFile> file);

  /// The elements that `header` describes in an open file, which may go on
  /// behind them. DATA_LOSS if the file is too short.
  static absl::StatusOr<std::unique_ptr<ArrayReader>> ReadRaw(
      std::unique_ptr<io::ReadableFile> file, store::ArrayHeader header);

  const store::ArrayHeader& header() const { return header_; }
  const std::string& path() const { return file_->path(); }
  /// The name of the file, without its folders.
  std::string name() const {
    return path().substr(path().find_last_of('/') + 1);
  }
  /// The file as it was when opened.
  const io::FileInfo& info() const { return info_; }
  /// Whether the elements are all that a file of its own holds but for its
  /// header: what can be registered in place.
  bool has_own_file() const { return has_own_file_; }

  /// Takes elements of 2 bytes as bfloat16, for which numpy has no type.
  /// REQUIRES: they are uint16.
  void TakeAsBFloat16() {
    header_.type.kind = store::ElementType::Kind::kBFloat;
  }

  /// Takes a list of numbers as a matrix of one column. REQUIRES: one
  /// dimension.
  void TakeAsColumn() { header_.shape.push_back(1); }

  /// Raw bytes, from element `first` on.
  absl::Status ReadBytes(int64_t first, absl::Span<std::byte> out);

  /// Elements `first` .. as integers. REQUIRES: the type is not float.
  /// INVALID_ARGUMENT for one beyond 2^63 - 1.
  absl::Status ReadInts(int64_t first, absl::Span<int64_t> out);

  /// Elements `first` .. as doubles. REQUIRES: the type is float.
  absl::Status ReadFloats(int64_t first, absl::Span<double> out);

  /// The bytes before the first element.
  absl::StatusOr<std::vector<std::byte>> ReadHeaderBytes();

  /// FAILED_PRECONDITION if the file is no longer as it was when opened.
  absl::Status CheckUnchanged();

  /// INVALID_ARGUMENT: "`path`: [0, 5] `problem`", for the element at
  /// `position` with its index as numpy writes it.
  absl::Status ErrorAt(int64_t position, absl::string_view problem) const;

  /// INVALID_ARGUMENT: "`path`: `problem`".
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

/// Consecutive rows of a matrix, row-major, as they are stored.
struct RowBlock {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  absl::Span<const std::byte> bytes;
};

/// A matrix cut into blocks of rows that are read one by one: past the page
/// cache where the matrix has a file of its own in C order. One in Fortran
/// order is transposed; a block then takes a read for each column, so its
/// blocks are as large as the limit allows. Single-owner.
class RowSource {
 public:
  /// Blocks of at most `block_limit_bytes`, as they are and as they are stored,
  /// their items then of `stored_item_bytes` each; RESOURCE_EXHAUSTED if a row
  /// does not fit. All blocks but the last are stored as a multiple of 4 KiB,
  /// where that fits.
  /// FAILED_PRECONDITION if the file changed since it was opened.
  static absl::StatusOr<RowSource> Open(io::FileSystem& files,
                                        ArrayReader& matrix,
                                        int64_t stored_item_bytes,
                                        uint64_t block_limit_bytes);

  int64_t num_blocks() const {
    return (num_rows_ + block_rows_ - 1) / block_rows_;
  }

  /// Bytes of a block's rows at most, as they are and as they are stored.
  uint64_t block_bytes() const {
    return static_cast<uint64_t>(block_rows_) * row_bytes_;
  }
  uint64_t stored_block_bytes() const {
    return static_cast<uint64_t>(block_rows_ * num_columns_ *
                                 stored_item_bytes_);
  }

  /// Memory that Read needs.
  uint64_t memory_bytes() const;

  /// Reads a block into `memory`, aligned to 4 KiB, where its rows stay; their
  /// items are aligned.
  absl::StatusOr<RowBlock> Read(int64_t block, absl::Span<std::byte> memory);

 private:
  RowSource(ArrayReader& matrix, std::unique_ptr<io::ReadableFile> scanned,
            int64_t block_rows, int64_t stored_item_bytes);

  absl::Status ReadRows(const RowBlock& block, absl::Span<std::byte> rows);

  ArrayReader& matrix_;
  /// Null where the matrix reads better itself.
  std::unique_ptr<io::ReadableFile> scanned_;
  int64_t num_rows_;
  int64_t num_columns_;
  int64_t item_bytes_;
  int64_t stored_item_bytes_;
  uint64_t row_bytes_;
  int64_t block_rows_;
  /// One column of a block of a matrix in Fortran order.
  std::vector<std::byte> column_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_ARRAY_READER_H_
