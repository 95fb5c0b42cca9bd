#include "engine/ingest/generate/generated_classes.h"

#include <algorithm>
#include <bit>

namespace hearth::ingest {

namespace {

/// Newton's iteration: each step doubles the number of correct bits.
uint64_t InverseOf(uint64_t odd) {
  uint64_t inverse = odd;
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

}  // namespace

NodePermutation::NodePermutation(const GeneratorKey& key, int64_t size)
    : size_(static_cast<uint64_t>(size)) {
  const int bits = static_cast<int>(std::bit_width(size_ - 1));
  mask_ = (uint64_t{1} << bits) - 1;
  shift_ = std::max(1, (bits + 1) / 2);
  for (size_t i = 0; i < rounds_.size(); ++i) {
    const RandomBlock block = key.Block(i, 0);
    Round& round = rounds_[i];
    round.factor = block[0] | uint64_t{block[1]} << 32 | 1;
    round.inverse = InverseOf(round.factor);
    round.offset = block[2] | uint64_t{block[3]} << 32;
  }
}

}  // namespace hearth::ingest
