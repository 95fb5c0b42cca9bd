#include "engine/sweep/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "absl/strings/numbers.h"

namespace hearth::sweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

double Number(const std::string& text) {
  double number = std::nan("");
  EXPECT_TRUE(absl::SimpleAtod(text, &number)) << text;
  return number;
}

std::vector<std::string> GridValues(const Domain& domain) {
  const Space space = {{"p", domain}};
  std::vector<std::string> values;
  for (int64_t i = 0; i < GridSize(space, 1000); ++i) {
    values.push_back(GridPoint(space, i)[0].value);
  }
  return values;
}

TEST(GridTest, TakesAllValuesOfEachDomain) {
  EXPECT_THAT(GridValues(Choice{{"sage", "gcn"}}), ElementsAre("sage", "gcn"));
  EXPECT_THAT(GridValues(IntRange{.low = -1, .high = 2}),
              ElementsAre("-1", "0", "1", "2"));
  EXPECT_THAT(GridValues(IntRange{.low = 0, .high = 10, .steps = 3}),
              ElementsAre("0", "5", "10"));
  EXPECT_THAT(GridValues(IntRange{.low = 0, .high = 1, .steps = 5}),
              ElementsAre("0", "1"));
  EXPECT_THAT(GridValues(RealRange{.low = 0, .high = 0.5, .steps = 3}),
              ElementsAre("0", "0.25", "0.5"));
  EXPECT_THAT(GridValues(RealRange{.low = 7, .high = 9, .steps = 1}),
              ElementsAre("7"));
}

TEST(GridTest, SpacesLogRangesByRatio) {
  const auto values = GridValues(
      RealRange{.low = 1e-4, .high = 1e-1, .steps = 4, .is_log = true});
  EXPECT_THAT(values, ElementsAre("0.0001", "0.001", "0.01", "0.1"));
}

TEST(GridTest, HasEachCombinationOnceTheLastParameterFastest) {
  const Space space = {{"a", Choice{{"x", "y"}}},
                       {"b", IntRange{.low = 1, .high = 3}}};
  ASSERT_EQ(GridSize(space, 100), 6);
  EXPECT_EQ(GridPoint(space, 0), (Point{{"a", "x"}, {"b", "1"}}));
  EXPECT_EQ(GridPoint(space, 1), (Point{{"a", "x"}, {"b", "2"}}));
  EXPECT_EQ(GridPoint(space, 5), (Point{{"a", "y"}, {"b", "3"}}));
}

TEST(GridTest, SizeDoesNotOverflow) {
  const IntRange all = {.low = std::numeric_limits<int64_t>::min(),
                        .high = std::numeric_limits<int64_t>::max()};
  EXPECT_EQ(GridSize({{"a", all}, {"b", all}, {"c", all}}, 10'000), 10'001);
  EXPECT_EQ(GridSize({{"a", IntRange{.low = 1, .high = 100}},
                      {"b", IntRange{.low = 1, .high = 100}}},
                     10'000),
            10'000);
  EXPECT_EQ(GridSize({}, 10), 1);
}

TEST(GridTest, HasEveryPointThatCanBeDrawnUnlessThereIsNoEndOfThem) {
  const auto every =
      EveryPoint({{"a", Choice{{"x", "y"}}},
                  {"b", IntRange{.low = 1, .high = 3, .steps = 2}},
                  {"c", RealRange{.low = 0.5, .high = 0.5}}});
  ASSERT_TRUE(every.has_value());
  ASSERT_EQ(GridSize(*every, 100), 6);
  EXPECT_EQ(GridPoint(*every, 1),
            (Point{{"a", "x"}, {"b", "2"}, {"c", "0.5"}}));
  EXPECT_FALSE(EveryPoint({{"c", RealRange{.low = 0, .high = 1, .steps = 2}}}));
}

TEST(GridTest, NeedsStepsForRealRanges) {
  EXPECT_THAT(GridFaultOf(RealRange{.low = 0, .high = 1}),
              HasSubstr("how many"));
  EXPECT_EQ(GridFaultOf(RealRange{.low = 0, .high = 1, .steps = 2}), "");
  EXPECT_EQ(GridFaultOf(IntRange{.low = 0, .high = 1}), "");
}

TEST(FaultTest, NamesWhatIsWrong) {
  EXPECT_THAT(FaultOf(Choice{}), HasSubstr("must have a value"));
  EXPECT_THAT(FaultOf(IntRange{.low = 2, .high = 1}), HasSubstr("low to high"));
  EXPECT_THAT(FaultOf(RealRange{.low = 2, .high = 1}),
              HasSubstr("low to high"));
  EXPECT_THAT(FaultOf(RealRange{.low = 0, .high = 1, .is_log = true}),
              HasSubstr("above 0"));
  EXPECT_THAT(FaultOf(RealRange{.low = std::nan(""), .high = 1}),
              HasSubstr("finite"));
  EXPECT_THAT(FaultOf(RealRange{.low = 0, .high = 1, .steps = -1}),
              HasSubstr("step"));
  EXPECT_EQ(FaultOf(RealRange{.low = 0, .high = 1}), "");
  EXPECT_EQ(FaultOf(IntRange{.low = 1, .high = 1}), "");
}

const Space& MixedSpace() {
  static const auto& space =
      *new Space{{"lr", RealRange{.low = 1e-4, .high = 1e-1, .is_log = true}},
                 {"dropout", RealRange{.low = 0, .high = 0.5}},
                 {"hidden", IntRange{.low = 32, .high = 35}},
                 {"model", Choice{{"sage", "gcn"}}}};
  return space;
}

TEST(DrawTest, IsAFunctionOfSeedTrialAndName) {
  const Point point = DrawPoint(MixedSpace(), 7, 3);
  EXPECT_EQ(DrawPoint(MixedSpace(), 7, 3), point);
  EXPECT_NE(DrawPoint(MixedSpace(), 8, 3), point);
  EXPECT_NE(DrawPoint(MixedSpace(), 7, 4), point);
  // Neither the order nor other parameters matter.
  const Space turned = {MixedSpace()[2], MixedSpace()[0]};
  EXPECT_EQ(DrawPoint(turned, 7, 3), (Point{point[2], point[0]}));
}

TEST(DrawTest, CoversItsRangesEvenly) {
  constexpr int kTrials = 4000;
  std::map<std::string, int> hidden;
  std::map<std::string, int> models;
  int small_rates = 0;
  double dropouts = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Point point = DrawPoint(MixedSpace(), 1, trial);
    const double rate = Number(point[0].value);
    EXPECT_GE(rate, 1e-4);
    EXPECT_LE(rate, 1e-1);
    small_rates += rate < 1e-3 ? 1 : 0;
    const double dropout = Number(point[1].value);
    EXPECT_GE(dropout, 0);
    EXPECT_LE(dropout, 0.5);
    dropouts += dropout;
    ++hidden[point[2].value];
    ++models[point[3].value];
  }
  // A third of the decades; five standard deviations are 0.037.
  EXPECT_NEAR(small_rates / double{kTrials}, 1.0 / 3, 0.04);
  EXPECT_NEAR(dropouts / kTrials, 0.25, 0.02);
  ASSERT_EQ(hidden.size(), 4u);
  for (const auto& [value, count] : hidden) {
    EXPECT_NEAR(count / double{kTrials}, 0.25, 0.04) << value;
  }
  ASSERT_EQ(models.size(), 2u);
  EXPECT_NEAR(models["sage"] / double{kTrials}, 0.5, 0.04);
}

TEST(DrawTest, RoundingDoesNotLeaveTheRange) {
  const double low = 0.12345678;
  const Space space = {
      {"p", RealRange{.low = low, .high = std::nextafter(low, 1)}}};
  for (int trial = 0; trial < 100; ++trial) {
    const double value = Number(DrawPoint(space, 1, trial)[0].value);
    EXPECT_GE(value, low);
    EXPECT_LE(value, std::nextafter(low, 1));
  }
}

}  // namespace
}  // namespace hearth::sweep
