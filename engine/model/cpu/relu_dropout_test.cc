#include "engine/model/cpu/relu_dropout.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace hearth::model {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

DropoutPattern Pattern(double probability, uint64_t batch = 3) {
  return DropoutPattern(probability, /*model_seed=*/1,
                        {.epoch = 2, .batch = batch}, /*layer=*/4);
}

// Values with alternating signs and no zero.
std::vector<float> Values(int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(i % 3 == 0 ? -i - 1 : i + 1);
  }
  return values;
}

void ExpectDefinition(const DropoutPattern& pattern, int64_t count) {
  std::vector<float> values = Values(count);
  pattern.ApplyRelu(values.data(), 0, count);
  const std::vector<float> before = Values(count);
  for (int64_t i = 0; i < count; ++i) {
    const float expected =
        pattern.Keeps(i) && before[i] > 0 ? before[i] * pattern.scale() : 0;
    ASSERT_EQ(values[i], expected) << "element " << i << " of " << count;
  }
}

TEST(ReluDropoutTest, EveryInstructionSetFollowsTheDefinition) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const int64_t count : {0, 1, 63, 64, 65, 1000}) {
      ExpectDefinition(Pattern(0.3), count);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(ReluDropoutTest, ShardsHavePatternsOfTheirOwn) {
  const auto kept = [](uint64_t shard) {
    const DropoutPattern pattern(0.5, /*model_seed=*/1,
                                 {.epoch = 2, .batch = 3, .shard = shard},
                                 /*layer=*/4);
    std::vector<bool> elements;
    for (int64_t i = 0; i < 200; ++i) elements.push_back(pattern.Keeps(i));
    return elements;
  };
  EXPECT_NE(kept(0), kept(1));
  EXPECT_NE(kept(1), kept(2));
  EXPECT_EQ(kept(1), kept(1));
}

TEST(ReluDropoutTest, PartsGiveTheWhole) {
  std::vector<float> whole = Values(500);
  Pattern(0.5).ApplyRelu(whole.data(), 0, 500);
  std::vector<float> parts = Values(500);
  Pattern(0.5).ApplyRelu(parts.data(), 192, 500);
  Pattern(0.5).ApplyRelu(parts.data(), 0, 192);
  EXPECT_EQ(parts, whole);
}

TEST(ReluDropoutTest, DropsTheShareAskedForAndKeepsTheMean) {
  std::vector<float> ones(100000, 1);
  Pattern(0.2).ApplyRelu(ones.data(), 0, 100000);
  double sum = 0;
  int64_t dropped = 0;
  for (const float value : ones) {
    sum += value;
    dropped += value == 0;
  }
  // Five standard deviations.
  EXPECT_NEAR(dropped, 20000, 5 * std::sqrt(100000 * 0.2 * 0.8));
  EXPECT_NEAR(sum / 100000, 1, 0.01);
}

TEST(ReluDropoutTest, ProbabilityZeroKeepsAll) {
  for (int64_t i = 0; i < 1000; ++i) EXPECT_TRUE(Pattern(0).Keeps(i));
  EXPECT_EQ(Pattern(0).scale(), 1);
}

// Number of elements, of 1,000, that two patterns treat alike.
int CountEqual(const DropoutPattern& a, const DropoutPattern& b) {
  int equal = 0;
  for (int64_t i = 0; i < 1000; ++i) equal += a.Keeps(i) == b.Keeps(i);
  return equal;
}

TEST(ReluDropoutTest, EveryCoordinateGivesAnotherPattern) {
  const DropoutPattern base(0.5, 1, {.epoch = 2, .batch = 3}, 4);
  EXPECT_EQ(CountEqual(base, Pattern(0.5)), 1000);
  EXPECT_LT(CountEqual(base, {0.5, 9, {.epoch = 2, .batch = 3}, 4}), 600);
  EXPECT_LT(CountEqual(base, {0.5, 1, {.epoch = 9, .batch = 3}, 4}), 600);
  EXPECT_LT(CountEqual(base, {0.5, 1, {.epoch = 2, .batch = 9}, 4}), 600);
  EXPECT_LT(CountEqual(base, {0.5, 1, {.epoch = 2, .batch = 3}, 9}), 600);
}

TEST(ReluTest, ZeroesWhatIsNotPositive) {
  std::vector<float> values = {-1, 0, -0.0f, 2, 3};
  ApplyRelu(values.data(), 0, 5);
  EXPECT_THAT(values, ElementsAre(0, 0, 0, 2, 3));
}

TEST(ReluTest, DoesNotHideNan) {
  std::vector<float> values(130, kNan);
  ApplyRelu(values.data(), 0, 130);
  Pattern(0).ApplyRelu(values.data(), 0, 130);
  for (const float value : values) EXPECT_TRUE(std::isnan(value));
}

TEST(ReluDropoutGradientTest, PassesWhereTheOutputIsPositive) {
  std::vector<float> output(35, 0);
  std::vector<float> gradient(35, 2);
  output[1] = output[33] = 5;
  std::vector<float> result(35, kNan);
  ReluDropoutGradient(output.data(), gradient.data(), 1.25f, result.data(), 0,
                      35);
  for (int64_t i = 0; i < 35; ++i) {
    EXPECT_EQ(result[i], i == 1 || i == 33 ? 2.5f : 0) << i;
  }
}

void ExpectLeakyDefinition(const DropoutPattern& pattern, int64_t count) {
  std::vector<float> before = Values(count);
  // A kept zero has a gradient, a dropped one has none.
  for (int64_t i = 0; i < count; i += 5) before[i] = 0;
  std::vector<float> values = before;
  pattern.ApplyLeakyRelu(values.data(), 0, count);
  const std::vector<float> gradient = Values(count);
  std::vector<float> result(count, kNan);
  pattern.LeakyReluGradient(values.data(), gradient.data(), result.data(), 0,
                            count);
  for (int64_t i = 0; i < count; ++i) {
    const float slope = before[i] > 0 ? 1 : kLeakyReluSlope;
    const float scale = pattern.Keeps(i) ? pattern.scale() : 0;
    ASSERT_FLOAT_EQ(values[i], before[i] * slope * scale) << i;
    ASSERT_FLOAT_EQ(result[i], gradient[i] * slope * scale) << i;
  }
}

TEST(LeakyReluDropoutTest, EveryInstructionSetFollowsTheDefinition) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const int64_t count : {0, 1, 63, 64, 65, 1000}) {
      ExpectLeakyDefinition(Pattern(0.3), count);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(LeakyReluDropoutTest, PartsGiveTheWhole) {
  std::vector<float> whole = Values(500);
  Pattern(0.5).ApplyLeakyRelu(whole.data(), 0, 500);
  std::vector<float> parts = Values(500);
  Pattern(0.5).ApplyLeakyRelu(parts.data(), 192, 500);
  Pattern(0.5).ApplyLeakyRelu(parts.data(), 0, 192);
  EXPECT_EQ(parts, whole);
}

TEST(LeakyReluTest, FlattensWhatIsNotPositive) {
  std::vector<float> values = {-100, 0, 2, kNan};
  ApplyLeakyRelu(values.data(), 0, 4);
  EXPECT_FLOAT_EQ(values[0], -1);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[2], 2);
  EXPECT_TRUE(std::isnan(values[3]));
  const std::vector<float> gradient(4, 3);
  std::vector<float> result(4, kNan);
  LeakyReluGradient(values.data(), gradient.data(), result.data(), 0, 4);
  EXPECT_FLOAT_EQ(result[0], 0.03f);
  EXPECT_FLOAT_EQ(result[1], 0.03f);
  EXPECT_EQ(result[2], 3);
}

}  // namespace
}  // namespace hearth::model
