#include "engine/sample/subset.h"

#include <map>
#include <set>
#include <vector>

#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

RandomStream Stream(uint64_t seed) {
  return RandomStream(seed, RandomPurpose::kGenerator);
}

std::vector<int64_t> Draw(int64_t bound, int64_t count, uint64_t seed) {
  SubsetDrawer drawer;
  RandomStream random = Stream(seed);
  const auto drawn = drawer.Draw(bound, count, random);
  return {drawn.begin(), drawn.end()};
}

// Floyd's algorithm as published.
std::vector<int64_t> Reference(int64_t bound, int64_t count, uint64_t seed) {
  RandomStream random = Stream(seed);
  std::set<int64_t> chosen;
  for (int64_t last = bound - count; last < bound; ++last) {
    const auto drawn = static_cast<int64_t>(random.Below(last + 1));
    chosen.insert(chosen.count(drawn) > 0 ? last : drawn);
  }
  return {chosen.begin(), chosen.end()};
}

TEST(SubsetTest, IsFloydsSubsetInAscendingOrder) {
  SubsetDrawer drawer;  // One for all: nothing is left over from a draw.
  for (const int64_t count : {1, 2, 10, 63, 64, 65, 100, 200}) {
    for (const int64_t extra : {0, 1, 7, 100, 5000}) {
      RandomStream random = Stream(count);
      const auto drawn = drawer.Draw(count + extra, count, random);
      EXPECT_EQ(std::vector<int64_t>(drawn.begin(), drawn.end()),
                Reference(count + extra, count, count))
          << count << " of " << count + extra;
    }
  }
}

TEST(SubsetTest, OfNothing) { EXPECT_TRUE(Draw(5, 0, 1).empty()); }

TEST(SubsetTest, OfAll) {
  EXPECT_EQ(Draw(4, 4, 1), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(SubsetTest, EverySubsetIsEquallyLikely) {
  constexpr int kDraws = 20000;
  std::map<std::vector<int64_t>, double> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[Draw(6, 3, i)];
  ASSERT_EQ(counts.size(), 20u);
  const double expected = kDraws / 20.0;
  double chi_square = 0;
  for (const auto& [subset, count] : counts) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 43.8);  // 19 degrees of freedom, p = 0.001.
}

}  // namespace
}  // namespace hearth::sample
