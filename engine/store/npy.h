#ifndef HEARTH_ENGINE_STORE_NPY_H_
#define HEARTH_ENGINE_STORE_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/dtype.h"

namespace hearth::store {

/// Element type of a foreign .npy file. Little-endian.
struct NpyType {
  enum class Kind { kBool, kInt, kUint, kFloat };
  Kind kind = Kind::kFloat;
  /// 1, 2, 4 or 8.
  int64_t item_bytes = 4;

  friend bool operator==(const NpyType&, const NpyType&) = default;
};

/// "float32", "uint8", "bool": numpy's name.
std::string Name(NpyType type);

/// What the header of an .npy file says.
struct NpyHeader {
  NpyType type;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  /// Bytes before the first element.
  uint64_t data_offset = 0;

  /// Product of the shape.
  int64_t NumElements() const;
};

/// Longest header that is read; numpy's own are 128 bytes.
inline constexpr uint64_t kMaxNpyHeaderBytes = 1 << 20;

/// Reads and checks the header of `file`, versions 1 to 3: no object and no
/// structured arrays, little-endian, and the elements fill the rest of the
/// file exactly. DATA_LOSS if the file is too short, INVALID_ARGUMENT for
/// anything else that is wrong; both name the file.
absl::StatusOr<NpyHeader> ReadNpyHeader(io::ReadableFile& file);

/// A header for a C-order array, padded so that the data begins at a multiple
/// of `alignment` bytes (64 .. 32768). bfloat16, which numpy lacks, is "<u2".
std::string FormatNpyHeader(DType dtype, absl::Span<const int64_t> shape,
                            uint64_t alignment);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NPY_H_
