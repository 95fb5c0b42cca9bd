#include "engine/strategy/batch_bound.h"

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

TEST(BatchBoundTest, TheMarginEndsAtTheBound) {
  const BatchBound batches = {
      .largest = {.nodes = {80, 80, 8}, .edges = {160, 800}},
      .bound = {.nodes = {1000, 85, 8}, .edges = {170, 1000}}};
  EXPECT_EQ(batches.WithMargin(),
            (sample::BatchShape{.nodes = {90, 85, 8}, .edges = {170, 900}}));
}

TEST(BatchBoundTest, OfNoBatches) {
  EXPECT_EQ(BatchBound{}.WithMargin(), sample::BatchShape{});
}

}  // namespace
}  // namespace hearth::strategy
