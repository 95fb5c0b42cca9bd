#ifndef HEARTH_ENGINE_STORE_FLOAT16_H_
#define HEARTH_ENGINE_STORE_FLOAT16_H_

#include <cmath>
#include <cstdint>
#include <cstring>

namespace hearth::store {

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

/// The same as a float, which holds every binary16. Without branches, for loops
/// that are to be made wide.
inline float Float16ToFloat(uint16_t bits) {
  // As a float of the same fields the value is 2^-112 times too small;
  // multiplied, what was subnormal is right, too.
  uint32_t wide = (bits & 0x7FFFu) << 13;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  value *= 0x1p112f;
  std::memcpy(&wide, &value, sizeof(wide));
  // 2^16 and above: infinity and NaN.
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

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_FLOAT16_H_
