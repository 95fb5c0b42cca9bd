#ifndef HEARTH_ENGINE_STORE_FEATURE_ROWS_H_
#define HEARTH_ENGINE_STORE_FEATURE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "engine/io/row_reader.h"
#include "engine/store/array_type.h"
#include "engine/store/block_checksums.h"
#include "engine/store/manifest.h"

namespace hearth::store {

/// The format of a feature row.
struct RowFormat {
  int64_t dim = 0;
  DType dtype = DType::kFloat32;

  int64_t row_bytes() const { return RowBytes(dim, dtype); }
  bool operator==(const RowFormat&) const = default;
};

/// The format of a node type's rows in its file. REQUIRES: it has features.
RowFormat StoredFormat(const NodeTypeEntry& type);

/// The common format in which the rows of all node types are kept and passed
/// on: as wide as the widest, and float32 unless all have one element type.
/// Rows of a graph with one node type keep their own format. Types without
/// features do not count.
RowFormat CommonFormat(const Manifest& manifest);

/// A function that converts a row of format `from`, which need not be aligned,
/// to a row of format `to`: its values, then zeros. Null if the formats are
/// equal. REQUIRES: from.dim <= to.dim, and `to` is of the type of `from`, or
/// float32 where that is a 16-bit float.
std::function<void(const std::byte* stored, std::byte* row)> RowConversion(
    const RowFormat& from, const RowFormat& to);

/// A file with the rows of one table. Movable.
struct RowsOfFile {
  std::unique_ptr<io::ReadableFile> file;
  /// Place of the rows in the file, and among the rows of all files.
  io::RowTable table;
};

/// The rows of several files as one file, in which they lie one after the other
/// from byte 0 on, `row_bytes` each, as RowTable::convert makes them. REQUIRES:
/// `parts` is not empty and in the order of its rows, which begin at 0 without
/// gaps.
std::unique_ptr<io::ReadableFile> NewJoinedRows(std::vector<RowsOfFile> parts,
                                                uint32_t row_bytes);

/// The row checksum file of a feature matrix, for rows that are read in random
/// order: block checksums whose blocks are the rows, sealed with the CRC32C of
/// the matrix's block checksum file. It can be computed from the matrix, so it
/// is in no manifest, and is made again where it is missing or damaged.

/// "node.features.npy.rows.crc" for "node.features.npy.crc".
std::string RowChecksumPath(const ArrayFile& features);

/// Bytes of the checksums of `num_rows` rows, on disk and in memory.
uint64_t RowChecksumBytes(int64_t num_rows);

/// A writer of the row checksum file of `features` to `path`; to be sealed with
/// features.crc_file_crc32c. REQUIRES: file_id, dtype and shape are set.
absl::StatusOr<std::unique_ptr<BlockChecksumWriter>> NewRowChecksumWriter(
    io::FileSystem& files, const std::string& path, const ArrayFile& features);

/// The checksums of all rows of a feature matrix, in memory. Thread-safe.
class RowChecksums final : public io::RowCheck {
 public:
  /// Loads the row checksum file of `features`, of the dataset in `folder`. If
  /// it is missing or damaged, reads the whole matrix against its block
  /// checksums and makes the file again. DATA_LOSS naming file and block if the
  /// matrix is damaged; CANCELLED after a stop; an error of writing where the
  /// file cannot be made.
  static absl::StatusOr<std::unique_ptr<RowChecksums>> Load(
      io::FileSystem& files, const std::string& folder,
      const ArrayFile& features, const std::stop_token& stop);

  bool Matches(int64_t row, const std::byte* bytes) const override;

 private:
  RowChecksums(const ArrayFile& features, BlockChecksums checksums);

  const uint64_t file_id_;
  const size_t row_bytes_;
  const BlockChecksums checksums_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_FEATURE_ROWS_H_
