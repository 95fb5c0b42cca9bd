#include "engine/model/cpu/gradient_sum.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace hearth::model {
namespace {

// Parts begin at multiples of a cache line, so that no two threads write to one
// line.
constexpr size_t kFloatsPerLine = 16;
// Floats that are summed at a time: they stay in the first-level cache.
constexpr size_t kBlock = 1024;

size_t Begin(size_t size, int part, int parts) {
  const size_t lines = (size + kFloatsPerLine - 1) / kFloatsPerLine;
  return std::min(size, lines * part / parts * kFloatsPerLine);
}

void SumBlock(absl::Span<const absl::Span<float>> arrays, size_t begin,
              size_t count) {
  std::array<float, kBlock> sum;
  std::copy_n(arrays.front().data() + begin, count, sum.data());
  for (const absl::Span<float> array : arrays.subspan(1)) {
    const float* const from = array.data() + begin;
    for (size_t i = 0; i < count; ++i) sum[i] += from[i];
  }
  for (const absl::Span<float> array : arrays) {
    std::copy_n(sum.data(), count, array.data() + begin);
  }
}

}  // namespace

void SumPart(absl::Span<const absl::Span<float>> arrays, int part, int parts) {
  const size_t size = arrays.front().size();
  const size_t end = Begin(size, part + 1, parts);
  for (size_t at = Begin(size, part, parts); at < end; at += kBlock) {
    SumBlock(arrays, at, std::min(kBlock, end - at));
  }
}

}  // namespace hearth::model
