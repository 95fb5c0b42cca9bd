#include "engine/plan/partition/bloom_filters.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "engine/base/status_macros.h"
#include "engine/plan/partition/fennel.h"

namespace hearth::plan {
namespace {

// The bits of a filter of n nodes, m = n ln(1/f) / ln^2 2; with them, the best
// number of hashes is m / n ln 2 = 3.3.
int64_t Rows(int64_t nodes, int parts) {
  const auto most = static_cast<double>(PartCapacity(nodes, parts));
  const double bits = most * std::log(1 / BloomFilters::kFalsePositives) /
                      (std::numbers::ln2 * std::numbers::ln2);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(bits)));
}

// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

uint64_t BloomFilters::Bytes(int64_t nodes, int parts) {
  const uint64_t bits =
      static_cast<uint64_t>(Rows(nodes, parts)) * static_cast<uint64_t>(parts);
  // A probe reads a word more than it needs.
  return (bits / 64 + 2 + kMaxWords) * sizeof(uint64_t);
}

absl::StatusOr<BloomFilters> BloomFilters::Make(int64_t nodes, int parts) {
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(Bytes(nodes, parts)));
  return BloomFilters(Rows(nodes, parts), parts, std::move(memory));
}

std::array<uint64_t, BloomFilters::kHashes> BloomFilters::Places(
    store::NodeId node) const {
  constexpr uint64_t kSteps = 0x9e3779b97f4a7c15;
  std::array<uint64_t, kHashes> places;
  uint64_t seed = static_cast<uint64_t>(node) * kHashes;
  for (uint64_t& place : places) {
    const auto row = static_cast<uint64_t>(
        static_cast<unsigned __int128>(Mix(++seed * kSteps)) *
            static_cast<uint64_t>(rows_) >>
        64);
    place = row * static_cast<uint64_t>(parts_);
  }
  return places;
}

void BloomFilters::Insert(store::NodeId node, int part) {
  for (const uint64_t place : Places(node)) {
    const uint64_t bit = place + static_cast<uint64_t>(part);
    words()[bit / 64] |= uint64_t{1} << (bit % 64);
  }
}

void BloomFilters::Count(store::NodeId node, PartCounts& counts) const {
  const std::array<uint64_t, kHashes> places = Places(node);
  for (int first = 0; first < parts_; first += 64) {
    uint64_t met = ~uint64_t{0};
    for (const uint64_t place : places) {
      const uint64_t bit = place + static_cast<uint64_t>(first);
      const uint64_t* const at = words() + bit / 64;
      const uint64_t low = at[0] >> (bit % 64);
      // In two steps, as a shift by 64 is none.
      met &= low | at[1] << 1 << (63 - bit % 64);
    }
    if (parts_ - first < 64) met &= (uint64_t{1} << (parts_ - first)) - 1;
    for (; met != 0; met &= met - 1) {
      counts.Add(first + std::countr_zero(met));
    }
  }
}

}  // namespace hearth::plan
