#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_RADIX_SORT_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_RADIX_SORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hearth::strategy {

/// Sorts `values` by key(value), at least 0; those of equal keys keep their
/// order. Takes as many passes as the largest key has groups of 11 bits: for
/// numbers of nodes a fraction of the time of std::sort. `scratch` gets their
/// size and any contents.
template <typename T, typename Key>
void RadixSort(std::vector<T>& values, std::vector<T>& scratch, Key key) {
  constexpr int kBits = 11;
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  uint64_t all = 0;
  for (const T& value : values) all |= static_cast<uint64_t>(key(value));
  scratch.resize(values.size());
  for (int shift = 0; shift < 64 && all >> shift != 0; shift += kBits) {
    const auto digit = [&](const T& value) {
      return (static_cast<uint64_t>(key(value)) >> shift) & kMask;
    };
    // How many have a digit; then, where the next one of them goes.
    std::array<size_t, kMask + 1> next = {};
    for (const T& value : values) ++next[digit(value)];
    size_t begin = 0;
    for (size_t& count : next) begin += std::exchange(count, begin);
    for (const T& value : values) scratch[next[digit(value)]++] = value;
    values.swap(scratch);
  }
}

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_RADIX_SORT_H_
