#include "engine/ingest/formats/id_permutation.h"

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

TEST(IdPermutationTest, HasEveryIdOnce) {
  for (const int64_t size : {1, 2, 3, 4, 5, 31, 32, 33, 1000, 65537}) {
    const IdPermutation permutation(size, 7);
    std::vector<bool> seen(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t id = permutation[i];
      ASSERT_GE(id, 0);
      ASSERT_LT(id, size);
      ASSERT_FALSE(seen[static_cast<size_t>(id)]) << size << " " << id;
      seen[static_cast<size_t>(id)] = true;
    }
  }
}

TEST(IdPermutationTest, IsThatOfItsSeed) {
  const auto all = [](uint64_t seed) {
    const IdPermutation permutation(1000, seed);
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < 1000; ++i) ids.push_back(permutation[i]);
    return ids;
  };
  EXPECT_EQ(all(1), all(1));
  EXPECT_NE(all(1), all(2));
  EXPECT_NE(all(1), all(uint64_t{1} << 32 | 1));
}

TEST(IdPermutationTest, EveryOrderOfFewIdsComesUp) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const IdPermutation permutation(4, seed);
    orders.insert(
        {permutation[0], permutation[1], permutation[2], permutation[3]});
  }
  EXPECT_EQ(orders.size(), 24u);
}

TEST(IdPermutationTest, TheFirstPositionsHaveIdsFromAllOver) {
  const int64_t size = 1'000'000;
  const IdPermutation permutation(size, 3);
  constexpr int kBuckets = 100, kDrawn = 100'000;
  std::vector<int> counts(kBuckets);
  for (int64_t i = 0; i < kDrawn; ++i) {
    ++counts[static_cast<size_t>(permutation[i] * kBuckets / size)];
  }
  double chi_squared = 0;
  for (const int count : counts) {
    chi_squared += std::pow(count - kDrawn / kBuckets, 2) * kBuckets / kDrawn;
  }
  // Bounds for 99 degrees of freedom; beyond these one time in some ten
  // thousand.
  EXPECT_GT(chi_squared, 45);
  EXPECT_LT(chi_squared, 160);
}

TEST(IdPermutationTest, HugeRangesAreFine) {
  const int64_t size = INT64_MAX;
  const IdPermutation permutation(size, 3);
  for (const int64_t i : {int64_t{0}, int64_t{1} << 40, size - 1}) {
    EXPECT_GE(permutation[i], 0);
    EXPECT_LT(permutation[i], size);
  }
}

}  // namespace
}  // namespace hearth::ingest
