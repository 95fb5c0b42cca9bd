#ifndef HEARTH_ENGINE_STORE_ARRAY_HEADER_H_
#define HEARTH_ENGINE_STORE_ARRAY_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::store {

/// Element type of a foreign array. Little-endian.
struct ElementType {
  /// kBFloat is a float32 without its lower half, which numpy lacks.
  enum class Kind { kBool, kInt, kUint, kFloat, kBFloat };
  Kind kind = Kind::kFloat;
  /// 1, 2, 4 or 8; of kBFloat 2.
  int64_t item_bytes = 4;

  bool IsFloat() const { return kind == Kind::kFloat || kind == Kind::kBFloat; }

  friend bool operator==(const ElementType&, const ElementType&) = default;
};

/// "float32", "uint8", "bool", "bfloat16": as numpy and torch name them.
std::string Name(ElementType type);

/// The place and type of a foreign array in its file.
struct ArrayHeader {
  ElementType type;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  /// Bytes before the first element.
  uint64_t data_offset = 0;

  /// Product of the shape.
  int64_t NumElements() const;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_ARRAY_HEADER_H_
