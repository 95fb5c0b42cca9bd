#include "engine/sample/neighbor_draw.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace hearth::sample {

namespace {

// Up to this count, a sorted array is faster than a bit set.
constexpr int64_t kMaxSortedInsertion = 64;

}  // namespace

absl::Span<const int64_t> SubsetDrawer::Draw(int64_t bound, int64_t count,
                                             RandomStream& random) {
  chosen_.resize(count);
  // Two representations of one algorithm: the same draws, the same subset.
  if (count <= kMaxSortedInsertion) {
    InsertSorted(bound, count, random);
  } else {
    MarkBits(bound, count, random);
  }
  return chosen_;
}

void SubsetDrawer::InsertSorted(int64_t bound, int64_t count,
                                RandomStream& random) {
  for (int64_t size = 0; size < count; ++size) {
    const int64_t last = bound - count + size;
    const auto drawn = static_cast<int64_t>(random.Below(last + 1));
    int64_t place = size;
    while (place > 0 && chosen_[place - 1] > drawn) --place;
    if (place > 0 && chosen_[place - 1] == drawn) {
      // The number was drawn before: `last`, larger than all so far, replaces
      // it.
      chosen_[size] = last;
      continue;
    }
    for (int64_t i = size; i > place; --i) chosen_[i] = chosen_[i - 1];
    chosen_[place] = drawn;
  }
}

void SubsetDrawer::MarkBits(int64_t bound, int64_t count,
                            RandomStream& random) {
  const size_t words = (bound + 63) / 64;
  if (bits_.size() < words) bits_.resize(words);
  for (int64_t last = bound - count; last < bound; ++last) {
    const uint64_t drawn = random.Below(last + 1);
    const bool again = (bits_[drawn / 64] >> drawn % 64 & 1) != 0;
    const uint64_t number = again ? static_cast<uint64_t>(last) : drawn;
    bits_[number / 64] |= uint64_t{1} << number % 64;
  }
  size_t size = 0;
  for (size_t word = 0; word < words; ++word) {
    for (; bits_[word] != 0; bits_[word] &= bits_[word] - 1) {
      chosen_[size++] =
          static_cast<int64_t>(word * 64 + std::countr_zero(bits_[word]));
    }
  }
}

absl::Span<const int64_t> NeighborDraw::Subset(const List& list,
                                               const BatchKey& key) {
  // Node ids are below 2^48 and batches below 2^40, so that layer and node
  // share a coordinate, as edge type and batch do. A GPU draws with the same
  // coordinates (device_workspace.cc).
  RandomStream random(data_seed_, RandomPurpose::kNeighborSampling,
                      key.epoch_key,
                      static_cast<uint64_t>(list.edge_type) << 40 | key.batch,
                      static_cast<uint64_t>(list.layer) << 48 |
                          static_cast<uint64_t>(list.node));
  return subset_.Draw(list.degree, list.fanout, random);
}

}  // namespace hearth::sample
