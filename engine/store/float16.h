#ifndef HEARTH_ENGINE_STORE_FLOAT16_H_
#define HEARTH_ENGINE_STORE_FLOAT16_H_

#include <cmath>
#include <cstdint>

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

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_FLOAT16_H_
