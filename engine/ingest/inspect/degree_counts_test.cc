#include "engine/ingest/inspect/degree_counts.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

TEST(DegreeCountsTest, IsExactBelowAndAboveWhatIsCountedInATable) {
  std::vector<uint64_t> degrees;
  for (uint64_t i = 0; i < 1003; ++i) degrees.push_back(i * i % 70'001 * 7);
  DegreeCounts counts;
  uint64_t sum = 0;
  for (const uint64_t degree : degrees) {
    counts.Add(degree);
    sum += degree;
  }
  std::sort(degrees.begin(), degrees.end());
  ASSERT_GT(degrees.back(), 65'536u);
  EXPECT_EQ(counts.Mean(), static_cast<double>(sum) / 1003);
  // 501.5 and 992.97 nodes, rounded up.
  EXPECT_EQ(counts.Percentile(50), degrees[501]);
  EXPECT_EQ(counts.Percentile(99), degrees[992]);
  EXPECT_EQ(counts.Percentile(100), degrees.back());
  EXPECT_EQ(counts.NumOf(0), 1u);
  EXPECT_EQ(counts.NumOf(degrees.back()),
            static_cast<uint64_t>(
                std::count(degrees.begin(), degrees.end(), degrees.back())));
  EXPECT_EQ(counts.NumOf(degrees.back() + 1), 0u);
}

TEST(DegreeCountsTest, HalfOfAnEvenNumberIsTheLowerMedian) {
  DegreeCounts counts;
  for (const uint64_t degree : {5, 1, 2, 9}) counts.Add(degree);
  EXPECT_EQ(counts.Percentile(50), 2u);
  EXPECT_EQ(counts.Percentile(99), 9u);
}

TEST(DegreeCountsTest, WithoutNodesAllIsZero) {
  const DegreeCounts counts;
  EXPECT_EQ(counts.Mean(), 0);
  EXPECT_EQ(counts.Percentile(50), 0u);
  EXPECT_EQ(counts.NumOf(0), 0u);
}

}  // namespace
}  // namespace hearth::ingest
