#ifndef HEARTH_ENGINE_INGEST_SOURCE_ROW_SOURCE_H_
#define HEARTH_ENGINE_INGEST_SOURCE_ROW_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

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

#endif  // HEARTH_ENGINE_INGEST_SOURCE_ROW_SOURCE_H_
