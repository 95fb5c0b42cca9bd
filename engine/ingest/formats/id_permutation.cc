#include "engine/ingest/formats/id_permutation.h"

#include <algorithm>
#include <bit>

#include "engine/base/random.h"

namespace hearth::ingest {
namespace {

// More change nothing that could be seen; fewer leave patterns among few ids.
constexpr uint32_t kRounds = 10;
// Tells these numbers from all others that are drawn with the same seed.
constexpr uint32_t kPurpose = 0x73706C74;

uint64_t Mask(int bits) { return (uint64_t{1} << bits) - 1; }

}  // namespace

IdPermutation::IdPermutation(int64_t size, uint64_t seed)
    : size_(static_cast<uint64_t>(size)), seed_(seed) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(size_ - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

uint64_t IdPermutation::Scramble(uint64_t id) const {
  uint64_t low = id & Mask(low_bits_);
  uint64_t high = id >> low_bits_;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const bool changes_low = round % 2 == 0;
    const uint64_t other = changes_low ? high : low;
    const auto random = Philox(
        {static_cast<uint32_t>(other), static_cast<uint32_t>(other >> 32),
         round, kPurpose},
        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    const uint64_t value = uint64_t{random[1]} << 32 | random[0];
    if (changes_low) {
      low ^= value & Mask(low_bits_);
    } else {
      high ^= value & Mask(high_bits_);
    }
  }
  return high << low_bits_ | low;
}

int64_t IdPermutation::operator[](int64_t position) const {
  // Fewer than half of the values of that many bits are beyond the ids (but
  // for the least sizes); from there the walk comes back to an id that no
  // other position reaches.
  uint64_t id = Scramble(static_cast<uint64_t>(position));
  while (id >= size_) id = Scramble(id);
  return static_cast<int64_t>(id);
}

}  // namespace hearth::ingest
