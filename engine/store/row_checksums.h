#ifndef HEARTH_ENGINE_STORE_ROW_CHECKSUMS_H_
#define HEARTH_ENGINE_STORE_ROW_CHECKSUMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/io/row_reader.h"
#include "engine/store/block_checksums.h"
#include "engine/store/manifest.h"

/// The row checksum file of a feature matrix, for rows that are read here and
/// there: block checksums whose blocks are the rows, sealed with the CRC32C of
/// the matrix's block checksum file. It follows from the matrix, so it is in no
/// manifest, and is made again where it is missing or damaged.

namespace hearth::store {

/// "node.features.npy.rows.crc" for "node.features.npy.crc".
std::string RowChecksumPath(const ArrayFile& features);

/// Bytes of the checksums of so many rows, on disk and in memory.
uint64_t RowChecksumBytes(int64_t num_rows);

/// A writer of the row checksum file of `features` to `path`; to be sealed with
/// features.crc_file_crc32c. REQUIRES: file_id, dtype and shape are set.
absl::StatusOr<std::unique_ptr<BlockChecksumWriter>> NewRowChecksumWriter(
    io::FileSystem& files, const std::string& path, const ArrayFile& features);

/// The checksums of all rows, in memory. Thread-safe.
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

#endif  // HEARTH_ENGINE_STORE_ROW_CHECKSUMS_H_
