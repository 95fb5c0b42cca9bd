#ifndef HEARTH_ENGINE_PLAN_LAYOUT_BYTE_PACKING_H_
#define HEARTH_ENGINE_PLAN_LAYOUT_BYTE_PACKING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"

namespace hearth::plan {

/// Numbers in as few whole bytes as the largest of them needs: small, and quick
/// to take out. Little-endian. All functions are pure.

/// Bytes that a number up to `largest` needs: 0 for 0, up to 8.
inline int PackedWidth(uint64_t largest) {
  return (64 - __builtin_clzll(largest | 1) + 7 - (largest == 0)) / 8;
}

/// The width that all of `values` need. REQUIRES: none is negative.
template <typename Integer>
int PackedWidthOf(absl::Span<const Integer> values) {
  uint64_t all = 0;
  for (const Integer value : values) all |= static_cast<uint64_t>(value);
  return PackedWidth(all);
}

/// Writes `values`, `width` bytes each, and returns where they end.
template <typename Integer>
std::byte* Pack(absl::Span<const Integer> values, int width, std::byte* to) {
  // There may be no memory for what takes none.
  if (width == 0) return to;
  for (const Integer value : values) {
    const auto bits = static_cast<uint64_t>(value);
    std::memcpy(to, &bits, static_cast<size_t>(width));
    to += width;
  }
  return to;
}

/// Fills `values` from numbers of `width` bytes, and returns where they end.
template <typename Integer>
const std::byte* Unpack(const std::byte* from, int width,
                        absl::Span<Integer> values) {
  if (width == 0) {
    std::fill(values.begin(), values.end(), Integer{0});
    return from;
  }
  for (Integer& value : values) {
    uint64_t bits = 0;
    std::memcpy(&bits, from, static_cast<size_t>(width));
    value = static_cast<Integer>(bits);
    from += width;
  }
  return from;
}

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_LAYOUT_BYTE_PACKING_H_
