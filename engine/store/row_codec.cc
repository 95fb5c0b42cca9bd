#include "engine/store/row_codec.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace hearth::store {
namespace {

constexpr float kMostSteps = 127;

// The nearest integer, ties to even, of a float below 2^22: float32 has no
// fractions from 2^23 on. Unlike std::nearbyint, compilers vectorize it.
float ToNearest(float value) {
  constexpr float kNoFractions = 0x1.8p23f;
  return (value + kNoFractions) - kNoFractions;
}

void EncodeBFloat16(absl::Span<const float> values, std::byte* row) {
  for (const float value : values) {
    const uint16_t bits = FloatToBFloat16(value);
    std::memcpy(row, &bits, sizeof(bits));
    row += sizeof(bits);
  }
}

int64_t EncodeInt8(absl::Span<const float> values, std::byte* row) {
  // Magnitudes are in the order of their bits, infinities and NaNs last.
  uint32_t most = 0;
  for (const float value : values) {
    most = std::max(most, std::bit_cast<uint32_t>(value) & 0x7FFFFFFF);
  }
  if (!std::isfinite(std::bit_cast<float>(most))) {
    const auto first = std::find_if(values.begin(), values.end(),
                                    [](float x) { return !std::isfinite(x); });
    return first - values.begin();
  }
  const float scale = ScaleFor(std::bit_cast<float>(most));
  // Of values without a scale all are nearest to zero.
  const float divisor = scale == 0 ? 1 : scale;
  auto* const elements = reinterpret_cast<int8_t*>(row);
  for (size_t i = 0; i < values.size(); ++i) {
    elements[i] = static_cast<int8_t>(
        ToNearest(std::clamp(values[i] / divisor, -kMostSteps, kMostSteps)));
  }
  std::memcpy(row + values.size(), &scale, sizeof(scale));
  return -1;
}

}  // namespace

absl::string_view RowTypeName(DType dtype) {
  return dtype == DType::kBFloat16 ? "bf16" : "int8";
}

std::optional<DType> RowTypeNamed(absl::string_view name) {
  for (const DType dtype : {DType::kBFloat16, DType::kScaledInt8}) {
    if (name == RowTypeName(dtype)) return dtype;
  }
  return std::nullopt;
}

float ScaleFor(float most) {
  const float scale = most / kMostSteps;
  // Rounding up must not make the largest value infinite.
  return std::isinf(kMostSteps * scale) ? std::nextafter(scale, 0.0f) : scale;
}

int64_t EncodeRow(absl::Span<const float> values, DType dtype, std::byte* row) {
  if (dtype == DType::kScaledInt8) return EncodeInt8(values, row);
  assert(dtype == DType::kBFloat16);
  EncodeBFloat16(values, row);
  return -1;
}

}  // namespace hearth::store
