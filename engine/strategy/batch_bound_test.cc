#include "engine/strategy/batch_bound.h"

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

TEST(BatchBoundTest, TheMarginEndsAtTheBound) {
  const BatchBound batches = {
      .largest = {.nodes = {80, 80, 8}, .edges = {160, 800}},
      .likely = {.nodes = {90, 90, 9}, .edges = {180, 900}},
      .bound = {.nodes = {1000, 85, 8}, .edges = {170, 1000}}};
  EXPECT_EQ(batches.WithMargin(),
            (sample::BatchShape{.nodes = {90, 85, 8}, .edges = {170, 900}}));
}

TEST(BatchBoundTest, OfNoBatches) {
  EXPECT_EQ(BatchBound{}.WithMargin(), sample::BatchShape{});
}

// A batch of 10 seeds with so many inputs and edges.
sample::BatchShape Batch(int64_t inputs, int64_t edges) {
  return {.nodes = {inputs, 10}, .edges = {edges}};
}

TEST(BatchSpreadTest, FewBatchesHaveAnEighthAbove) {
  BatchSpread spread;
  EXPECT_EQ(spread.Likely(), sample::BatchShape{});
  for (int i = 0; i < 29; ++i) spread.Add(Batch(800, 1600), 10);
  EXPECT_EQ(spread.largest(), Batch(800, 1600));
  EXPECT_EQ(spread.Likely(),
            (sample::BatchShape{.nodes = {900, 11}, .edges = {1800}}));
}

TEST(BatchSpreadTest, ManyThatAreAlikeHaveEightDeviations) {
  BatchSpread spread;
  // The mean of the inputs is 1000, their deviation 5; edges are all equal.
  for (int i = 0; i < 2000; ++i) {
    spread.Add(Batch(i % 2 == 0 ? 995 : 1005, 2000), 10);
  }
  EXPECT_EQ(spread.Likely(),
            (sample::BatchShape{.nodes = {1041, 10}, .edges = {2000}}));
}

TEST(BatchSpreadTest, ManyThatDifferHaveAnEighthAbove) {
  BatchSpread spread;
  for (int i = 0; i < 2000; ++i)
    spread.Add(Batch(i % 2 == 0 ? 80 : 800, 8), 10);
  EXPECT_EQ(spread.Likely().num_inputs(), 900);
}

TEST(BatchSpreadTest, NoneIsBelowTheLargest) {
  BatchSpread spread;
  for (int i = 0; i < 2000; ++i) spread.Add(Batch(1000, 2000), 10);
  spread.Add(Batch(1100, 2000), 10);
  EXPECT_EQ(spread.Likely().num_inputs(), 1100);
}

TEST(BatchSpreadTest, AShortBatchTellsNothingOfTheSpread) {
  BatchSpread spread;
  for (int i = 0; i < 50; ++i) spread.Add(Batch(1000, 2000), 10);
  spread.Add({.nodes = {10, 1}, .edges = {9}}, 10);
  EXPECT_EQ(spread.Likely(), Batch(1000, 2000));
}

}  // namespace
}  // namespace hearth::strategy
