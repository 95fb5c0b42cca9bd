#ifndef HEARTH_ENGINE_STORE_ARRAY_WRITER_H_
#define HEARTH_ENGINE_STORE_ARRAY_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"
#include "engine/store/block_checksums.h"
#include "engine/store/manifest.h"

namespace hearth::store {

/// Layout of an array's file, which depends on how the array is read.
struct ArrayAccess {
  /// The data begins at a multiple of this, in bytes.
  uint64_t alignment = 64;
  uint32_t crc_block_bytes = 64 << 10;
  /// Whether it is written past the page cache, because it is larger than
  /// memory as a rule.
  bool uncached = false;
};

/// Layout of arrays that are read from one end to the other.
inline constexpr ArrayAccess kStreamAccess{64, 64 << 10, false};
/// Layout of arrays whose rows are read in random order, with O_DIRECT.
inline constexpr ArrayAccess kRandomAccess{4096, 4096, true};

/// Suffix of checksum files.
inline constexpr char kChecksumSuffix[] = ".crc";

/// Place of the files of a dataset that is being made.
struct ArrayPlace {
  std::string folder;
  /// The dataset's name, part of the ids of its files.
  std::string dataset;
  /// Prefix of the files' names, such as their node type.
  std::string prefix;

  /// "`prefix`.`what`.npy".
  std::string FileName(absl::string_view what) const;
};

/// Id of file `name` of a dataset, which seeds the file's checksums.
uint64_t FileId(absl::string_view dataset, absl::string_view name);

/// Bytes on disk of an array and its checksums.
uint64_t StoredBytes(uint64_t data_bytes, const ArrayAccess& layout);

/// A finished array: its entry for the manifest, and the digest that stands for
/// its data in the fingerprint.
struct FinishedArray {
  ArrayFile file;
  std::string checksums_sha256;
};

/// Writes an .npy file and its checksum file, from the first element to the
/// last. Single-owner.
class ArrayWriter {
 public:
  /// Creates place.FileName(what), with space reserved for all of it.
  static absl::StatusOr<std::unique_ptr<ArrayWriter>> Create(
      io::FileSystem& files, const ArrayPlace& place, absl::string_view what,
      DType dtype, std::vector<int64_t> shape, const ArrayAccess& layout);

  /// Appends the next elements, little-endian. For uncached arrays, address and
  /// length should be multiples of 4 KiB, except the last length.
  absl::Status Append(absl::Span<const std::byte> data);

  /// Appends the next elements, of the array's type.
  template <typename T>
  absl::Status AppendValues(absl::Span<const T> values) {
    return Append(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                            values.size() * sizeof(T)));
  }

  /// The array's entry so far, without checksums.
  const ArrayFile& entry() const { return entry_; }

  /// Syncs and closes both files. INTERNAL if elements are missing.
  absl::StatusOr<FinishedArray> Finish();

 private:
  ArrayWriter() = default;

  std::string path_;
  std::unique_ptr<io::WritableFile> file_;
  std::unique_ptr<BlockChecksumWriter> checksums_;
  ArrayFile entry_;
  uint64_t written_ = 0;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_ARRAY_WRITER_H_
