#ifndef HEARTH_ENGINE_STORE_ARRAY_PARTS_H_
#define HEARTH_ENGINE_STORE_ARRAY_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"
#include "engine/store/stored_array.h"

/// An array of a dataset, read part by part (ArrayParts).

namespace hearth::store {

/// Reads parts of an array's data, in any order, past the page cache where the
/// file system can, and checks every block that a part touches. Keeps the
/// checksums in memory, 4 bytes a block. Thread-safe.
class ArrayParts {
 public:
  /// Bytes of an array's data, from byte `begin` of the data on.
  struct Part {
    uint64_t begin = 0;
    absl::Span<const std::byte> bytes;

    uint64_t end() const { return begin + bytes.size(); }
    bool Has(uint64_t first, uint64_t last) const {
      return begin <= first && last <= end();
    }
    /// The byte of the data at `place`. REQUIRES: the part has it.
    const std::byte* At(uint64_t place) const {
      return bytes.data() + (place - begin);
    }
  };

  /// The array of the dataset in `folder`. `files` outlives it.
  /// FAILED_PRECONDITION, naming the file, if its size is not that at import;
  /// DATA_LOSS for damaged checksums; CANCELLED after a stop.
  static absl::StatusOr<ArrayParts> Open(io::FileSystem& files,
                                         const std::string& folder,
                                         const ArrayFile& array,
                                         const std::stop_token& stop);

  /// Bytes of memory, whole pages, that Read needs at most for `count` bytes of
  /// an array with such blocks.
  static uint64_t MemoryBytes(const ArrayFile& array, uint64_t count);

  /// Reads the bytes [begin, begin + count) of the data into `memory`, which
  /// begins at a page and has MemoryBytes, and returns the blocks that hold
  /// them, whole. DATA_LOSS naming file and block for damage, or naming the
  /// file for bytes behind its end; CANCELLED, within a few MiB, after a stop.
  absl::StatusOr<Part> Read(uint64_t begin, uint64_t count,
                            absl::Span<std::byte> memory,
                            const std::stop_token& stop) const;

  uint64_t data_bytes() const {
    return array_.file_size_bytes - array_.data_offset;
  }
  const ArrayFile& array() const { return array_; }
  const std::string& path() const { return from_.file->path(); }

 private:
  ArrayParts(CheckedFile from, ArrayFile array)
      : from_(std::move(from)), array_(std::move(array)) {}

  CheckedFile from_;
  ArrayFile array_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_ARRAY_PARTS_H_
