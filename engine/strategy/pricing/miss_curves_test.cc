#include "engine/strategy/pricing/miss_curves.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

// Of 10 sampled batches, few nodes in many of them and many in few.
const std::vector<double> kSkewed = {9e6, 6e5, 8e4, 2e4, 8e3, 4e3,
                                     2e3, 1e3, 1e3, 1e3, 2e3};

TEST(MissCurvesTest, AccessesAreScaledFromTheSample) {
  double accesses = 0;
  for (size_t k = 1; k < kSkewed.size(); ++k) {
    accesses += static_cast<double>(k) * kSkewed[k];
  }
  const MissCurves curves(kSkewed, /*total=*/100, /*repeats=*/false);
  EXPECT_NEAR(curves.accesses(), 10 * accesses, 1);
  EXPECT_GT(curves.distinct(), 1e6);
  EXPECT_LT(curves.distinct(), curves.accesses());
}

TEST(MissCurvesTest, NoCacheMissesEverythingAndTheWholeEachOnce) {
  const MissCurves curves(kSkewed, 100, /*repeats=*/true);
  for (const auto& misses :
       {curves.Lru(0), curves.Optimal(0), curves.Static(0)}) {
    EXPECT_NEAR(misses.first, curves.accesses(), 0.02 * curves.accesses());
    EXPECT_NEAR(misses.later, curves.accesses(), 0.02 * curves.accesses());
  }
  for (const auto& misses : {curves.Lru(1e7), curves.Optimal(1e7)}) {
    EXPECT_NEAR(misses.first, curves.distinct(), 0.01 * curves.distinct());
    EXPECT_EQ(misses.later, 0);
  }
  EXPECT_EQ(curves.Static(1e7).first, 0);
}

TEST(MissCurvesTest, NewBatchesMeetNewNodes) {
  const MissCurves curves(kSkewed, 100, /*repeats=*/false);
  const MissCurves::Misses all = curves.Lru(1e8);
  EXPECT_GT(all.later, 0);
  EXPECT_LT(all.later, all.first);
}

TEST(MissCurvesTest, MoreKnowledgeAndMemoryMissLess) {
  const MissCurves curves(kSkewed, 100, /*repeats=*/false);
  double before = curves.accesses();
  for (const double rows : {2e4, 1e5, 5e5}) {
    const double best = curves.Optimal(rows).later;
    EXPECT_LT(best, curves.Lru(rows).later) << rows;
    EXPECT_LT(best, before) << rows;
    // Popularity is known from the start.
    EXPECT_LT(curves.Static(rows).later, curves.Lru(rows).later) << rows;
    EXPECT_LE(curves.Static(rows, 1e5).later, curves.Static(rows).later);
    before = best;
  }
}

TEST(MissCurvesTest, ASingleBatchSuffices) {
  const MissCurves curves({90, 10}, 1, /*repeats=*/true);
  EXPECT_NEAR(curves.accesses(), 10, 1e-6);
  EXPECT_NEAR(curves.Lru(100).first, 10, 1);
}

}  // namespace
}  // namespace hearth::strategy
