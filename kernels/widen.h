#ifndef HEARTH_KERNELS_WIDEN_H_
#define HEARTH_KERNELS_WIDEN_H_

#include <bit>
#include <cstdint>

/// Widening of one element to float32, for CPU and GPU. Exact for
/// floating-point types: infinities, subnormals and the payload of NaNs stay.
/// Integer arithmetic, because the conversions of processors and libraries
/// differ in NaNs.

namespace hearth::kernels {

/// Constants of the conversion, shared with the conversion of vectors.
namespace float16 {
/// Exponent bits once the magnitude is shifted left by 13.
inline constexpr uint32_t kExponent = 0x7C00 << 13;
/// From float16's bias of the exponent to float32's ...
inline constexpr uint32_t kRebias = (127 - 15) << 23;
/// ... and from there to the exponent of infinities and NaNs.
inline constexpr uint32_t kInfinityRebias = (128 - 16) << 23;
/// For subnormals: adding one to the exponent makes a normal float32 that is
/// too large by the smallest normal float16; subtracting that renormalizes.
inline constexpr uint32_t kOneExponent = 1 << 23;
inline constexpr uint32_t kSmallestNormal = (127 - 14) << 23;
}  // namespace float16

/// The value of an IEEE 754 binary16.
constexpr float WidenFloat16(uint16_t half) {
  uint32_t bits = (half & uint32_t{0x7FFF}) << 13;
  const uint32_t exponent = bits & float16::kExponent;
  bits += float16::kRebias;
  if (exponent == float16::kExponent) {
    bits += float16::kInfinityRebias;
  } else if (exponent == 0) {
    bits = std::bit_cast<uint32_t>(
        std::bit_cast<float>(bits + float16::kOneExponent) -
        std::bit_cast<float>(float16::kSmallestNormal));
  }
  return std::bit_cast<float>(bits | (half & uint32_t{0x8000}) << 16);
}

/// The value of a bfloat16: the upper half of a float32.
constexpr float WidenBFloat16(uint16_t upper) {
  return std::bit_cast<float>(uint32_t{upper} << 16);
}

/// The value of an int8 in a row with a scale, which is finite: one rounding to
/// nearest, the same everywhere.
constexpr float WidenInt8(int8_t value, float scale) {
  return static_cast<float>(value) * scale;
}

/// Bytes of the scale, a float32 of any alignment behind the int8s of a row.
inline constexpr int64_t kScaleBytes = 4;

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_WIDEN_H_
