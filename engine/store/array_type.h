#ifndef HEARTH_ENGINE_STORE_ARRAY_TYPE_H_
#define HEARTH_ENGINE_STORE_ARRAY_TYPE_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hearth::store {

/// Element types that Hearth stores. kScaledInt8 is for feature rows alone
/// (row_codec.h): int8s, with a scale behind those of each row.
enum class DType {
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt32,
  kInt64,
  kUint8,
  kScaledInt8
};

/// Bytes of one element.
int64_t SizeOf(DType dtype);

/// "float32", "float16", "bfloat16", "int32", "int64", "uint8", "scaled_int8".
std::string Name(DType dtype);

/// The DType of that name. INVALID_ARGUMENT for other names.
absl::StatusOr<DType> ParseDType(absl::string_view name);

/// The value of an IEEE 754 binary16, given its bits.
inline double Float16ToDouble(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F;
  const int mantissa = bits & 0x3FF;
  double magnitude;
  if (exponent == 0x1F) {
    magnitude = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, -24);
  } else {
    magnitude = std::ldexp(mantissa + 1024, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Float16ToDouble as a float, which holds every binary16. Without branches,
/// for loops that are to be vectorized.
inline float Float16ToFloat(uint16_t bits) {
  // As a float with the same fields the value is 2^112 times too small;
  // multiplying corrects subnormals, too.
  uint32_t wide = (bits & 0x7FFFu) << 13;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  value *= 0x1p112f;
  std::memcpy(&wide, &value, sizeof(wide));
  // Values of 2^16 and above are infinity and NaN.
  wide |= (bits & 0x7C00u) == 0x7C00u ? 0x7F800000u : 0u;
  wide |= (bits & 0x8000u) << 16;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

/// The value of a bfloat16, given its bits.
inline float BFloat16ToFloat(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

/// The bits of the nearest binary16, ties to even; infinity beyond the largest.
inline uint16_t FloatToFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7FFFFFFF;
  if (bits > 0x7F800000) return sign | 0x7E00;   // NaN.
  if (bits >= 0x477FF000) return sign | 0x7C00;  // 65,520: rounds to infinity.
  if (bits < 0x38800000) {                       // 2^-14: subnormal.
    // In 0.5 + |value| the bits of a subnormal are the lowest of the mantissa.
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof(magnitude));
    magnitude += 0.5f;
    std::memcpy(&bits, &magnitude, sizeof(bits));
    return static_cast<uint16_t>(sign | (bits - 0x3F000000));
  }
  const uint32_t odd = bits >> 13 & 1;
  bits += 0xFFF + odd - (uint32_t{127 - 15} << 23);
  return static_cast<uint16_t>(sign | bits >> 13);
}

/// The bits of the nearest bfloat16, ties to even.
inline uint16_t FloatToBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  // Cutting off bits could turn a NaN into an infinity.
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// Bytes of a feature row of `columns` elements, its scale included.
inline int64_t RowBytes(int64_t columns, DType dtype) {
  constexpr int64_t kScaleBytes = sizeof(float);
  return columns * SizeOf(dtype) +
         (dtype == DType::kScaledInt8 ? kScaleBytes : 0);
}

/// Bytes of an array of `shape` with elements of `item_bytes`; nullopt if a
/// dimension is negative or the product does not fit an int64.
std::optional<int64_t> ArrayBytes(absl::Span<const int64_t> shape,
                                  int64_t item_bytes);

/// Text of a shape as numpy prints it: "(3, 4)", "(5,)", "()".
std::string FormatShape(absl::Span<const int64_t> shape);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_ARRAY_TYPE_H_
