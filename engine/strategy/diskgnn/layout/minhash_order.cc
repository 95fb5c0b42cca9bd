#include "engine/strategy/diskgnn/layout/minhash_order.h"

#include <cstddef>
#include <numeric>
#include <utility>

#include "engine/base/random.h"

namespace hearth::strategy {
namespace {

// Ranks 0 .. count - 1 in random order (Fisher-Yates).
std::vector<uint32_t> RandomRanks(int64_t count, RandomStream random) {
  std::vector<uint32_t> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0u);
  for (size_t i = ranks.size(); i > 1; --i) {
    std::swap(ranks[i - 1], ranks[random.Below(i)]);
  }
  return ranks;
}

// Sorts `order` by the values that it refers to, which are at most `largest`,
// and keeps the order of equal ones. (Counting sort.)
void SortBy(const std::vector<uint32_t>& values, size_t largest,
            std::vector<uint32_t>& order, std::vector<uint32_t>& scratch) {
  std::vector<uint32_t> next(largest + 2, 0);
  for (const uint32_t value : values) ++next[value + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (const uint32_t row : order) scratch[next[values[row]]++] = row;
  order.swap(scratch);
}

}  // namespace

MinHashOrder::MinHashOrder(int64_t num_rows, int64_t num_batches, uint64_t seed,
                           int64_t segment) {
  for (int j = 0; j < kNumFunctions; ++j) {
    ranks_[j] =
        RandomRanks(num_batches, RandomStream(seed, RandomPurpose::kReordering,
                                              static_cast<uint64_t>(segment),
                                              static_cast<uint64_t>(j)));
    signatures_[j].assign(static_cast<size_t>(num_rows),
                          static_cast<uint32_t>(num_batches));
  }
}

std::vector<uint32_t> MinHashOrder::Places() && {
  std::vector<uint32_t> order(signatures_[0].size());
  std::iota(order.begin(), order.end(), 0u);
  std::vector<uint32_t> places(order.size());
  // The least significant first: each sorting keeps what the last one did.
  for (int j = kNumFunctions; j-- > 0;) {
    SortBy(signatures_[j], ranks_[j].size(), order, places);
    std::vector<uint32_t>().swap(signatures_[j]);
  }
  for (size_t place = 0; place < order.size(); ++place) {
    places[order[place]] = static_cast<uint32_t>(place);
  }
  return places;
}

}  // namespace hearth::strategy
