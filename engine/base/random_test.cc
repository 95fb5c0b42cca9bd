#include "engine/base/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace hearth {
namespace {

// The published known answers of Philox4x32-10 (Random123, kat_vectors).
TEST(PhiloxTest, KnownAnswers) {
  using Four = std::array<uint32_t, 4>;
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                   {0xffffffff, 0xffffffff}),
            (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<uint32_t> Draw(RandomStream stream, int count) {
  std::vector<uint32_t> values;
  for (int i = 0; i < count; ++i) values.push_back(stream());
  return values;
}

TEST(RandomStreamTest, EqualCoordinatesGiveEqualStreams) {
  EXPECT_EQ(Draw({7, RandomPurpose::kDropout, 1, 2, 3}, 100),
            Draw({7, RandomPurpose::kDropout, 1, 2, 3}, 100));
}

TEST(RandomStreamTest, EveryCoordinateMatters) {
  const std::vector<std::vector<uint32_t>> streams = {
      Draw({7, RandomPurpose::kDropout, 1, 2, 3}, 4),
      Draw({8, RandomPurpose::kDropout, 1, 2, 3}, 4),
      Draw({7, RandomPurpose::kSeedOrder, 1, 2, 3}, 4),
      Draw({7, RandomPurpose::kDropout, 9, 2, 3}, 4),
      Draw({7, RandomPurpose::kDropout, 1, 9, 3}, 4),
      Draw({7, RandomPurpose::kDropout, 1, 2, 9}, 4),
      Draw({7, RandomPurpose::kDropout, 2, 1, 3}, 4),
      Draw({7, RandomPurpose::kDropout, 1, 3, 2}, 4),
  };
  const std::set<std::vector<uint32_t>> distinct(streams.begin(),
                                                 streams.end());
  EXPECT_EQ(distinct.size(), streams.size());
}

// Digests of training depend on the streams: they must never change.
TEST(RandomStreamTest, StreamsStayAsTheyAre) {
  const std::vector<uint32_t> first =
      Draw({1, RandomPurpose::kNeighborSampling, 2, 3, 4}, 6);
  const std::vector<uint32_t> expected = {0x78602a97, 0xa3adf12f, 0xca0affd9,
                                          0x106f884c, 0x346d7eb7, 0x6c34526b};
  EXPECT_EQ(first, expected);
}

TEST(RandomStreamTest, GoesOnBeyondABlock) {
  RandomStream stream(1, RandomPurpose::kGenerator);
  std::set<uint64_t> distinct;
  for (int i = 0; i < 4096; ++i) distinct.insert(stream.Next64());
  EXPECT_EQ(distinct.size(), 4096u);
}

TEST(RandomStreamTest, Next64IsTwoDraws) {
  RandomStream wide(1, RandomPurpose::kGenerator);
  const std::vector<uint32_t> halves = Draw({1, RandomPurpose::kGenerator}, 2);
  EXPECT_EQ(wide.Next64(), halves[0] | uint64_t{halves[1]} << 32);
}

TEST(RandomStreamTest, BelowStaysBelow) {
  RandomStream stream(1, RandomPurpose::kGenerator);
  for (const uint64_t bound :
       {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{1} << 31,
        uint64_t{UINT32_MAX}, uint64_t{UINT32_MAX} + 1, uint64_t{1} << 63,
        UINT64_MAX}) {
    for (int i = 0; i < 200; ++i) ASSERT_LT(stream.Below(bound), bound);
  }
}

// Chi-squared of `counts` against a uniform distribution, in standard
// deviations from its mean.
double ChiSquaredDeviation(const std::vector<int64_t>& counts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double expected = total / counts.size();
  double chi = 0;
  for (const int64_t count : counts) {
    chi += (count - expected) * (count - expected) / expected;
  }
  const double freedom = counts.size() - 1;
  return (chi - freedom) / std::sqrt(2 * freedom);
}

TEST(RandomStreamTest, BelowIsUniformOverSmallBounds) {
  for (const size_t bound : {2, 3, 7, 10, 1000}) {
    RandomStream stream(bound, RandomPurpose::kGenerator);
    std::vector<int64_t> counts(bound);
    for (int i = 0; i < 200'000; ++i) ++counts[stream.Below(bound)];
    EXPECT_LT(std::abs(ChiSquaredDeviation(counts)), 5) << "bound " << bound;
  }
}

// With a bound of three quarters of the range of a draw, multiplication without
// rejection hits every third value twice as often.
void ExpectNoBias(uint64_t bound) {
  RandomStream stream(1, RandomPurpose::kGenerator);
  std::vector<int64_t> counts(3);
  for (int i = 0; i < 60'000; ++i) ++counts[stream.Below(bound) % 3];
  EXPECT_LT(std::abs(ChiSquaredDeviation(counts)), 5) << "bound " << bound;
}

TEST(RandomStreamTest, BelowHasNoBiasOverLargeBounds) {
  ExpectNoBias(uint64_t{3} << 30);
  ExpectNoBias(uint64_t{3} << 62);
}

TEST(RandomStreamTest, UniformFloatFillsTheUnitInterval) {
  RandomStream stream(1, RandomPurpose::kDropout);
  std::vector<int64_t> counts(16);
  for (int i = 0; i < 100'000; ++i) {
    const float value = stream.UniformFloat();
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
    ++counts[static_cast<size_t>(value * 16)];
  }
  EXPECT_LT(std::abs(ChiSquaredDeviation(counts)), 5);
}

TEST(RandomStreamTest, ServesStandardAlgorithms) {
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 0);
  std::vector<int> shuffled = values;
  std::shuffle(shuffled.begin(), shuffled.end(),
               RandomStream(1, RandomPurpose::kGenerator));
  EXPECT_NE(shuffled, values);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, values);
}

}  // namespace
}  // namespace hearth
