#ifndef HEARTH_ENGINE_STORE_NPY_H_
#define HEARTH_ENGINE_STORE_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"

namespace hearth::store {

/// Element type of a foreign array; elements are little-endian.
struct ElementType {
  /// kBFloat is the upper half of a float32, which numpy lacks.
  enum class Kind { kBool, kInt, kUint, kFloat, kBFloat };
  Kind kind = Kind::kFloat;
  /// 1, 2, 4 or 8; for kBFloat 2.
  int64_t item_bytes = 4;

  bool IsFloat() const { return kind == Kind::kFloat || kind == Kind::kBFloat; }

  friend bool operator==(const ElementType&, const ElementType&) = default;
};

/// Name of the type in numpy and torch: "float32", "uint8", "bool", "bfloat16".
std::string Name(ElementType type);

/// Type, shape and place of a foreign array in its file.
struct ArrayHeader {
  ElementType type;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  /// Bytes before the first element.
  uint64_t data_offset = 0;

  /// Product of the shape.
  int64_t NumElements() const;
};

/// Longest header that is read; headers that numpy writes have 128 bytes.
inline constexpr uint64_t kMaxNpyHeaderBytes = 1 << 20;

/// Reads and checks the header of `file`, versions 1 to 3: neither objects nor
/// structures, little-endian, and the elements fill the rest of the file
/// exactly. DATA_LOSS if the file is too short, INVALID_ARGUMENT for other
/// problems; both name the file.
absl::StatusOr<ArrayHeader> ReadNpyHeader(io::ReadableFile& file);

/// Header of a C-order array, padded so that the data begins at a multiple of
/// `alignment` bytes (64 .. 32768). bfloat16, which numpy lacks, is written as
/// "<u2".
std::string FormatNpyHeader(DType dtype, absl::Span<const int64_t> shape,
                            uint64_t alignment);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NPY_H_
