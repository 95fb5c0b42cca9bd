#include "engine/strategy/superbatch/superbatch_size.h"

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 60;

// 1,000 bytes of sample and 50 rows a batch: 2,000 bytes of files with the
// plan.
constexpr SuperbatchProfile kProfile = {
    .batches = 4, .file_bytes = 4000, .rows = 200};

TEST(SuperbatchSizeTest, TwoSuperbatchesFitOnTheDisk) {
  EXPECT_EQ(SuperbatchSize(kProfile,
                           {.file_bytes = 4000 * 30, .plan_bytes = kPlenty}),
            30);
  EXPECT_EQ(SuperbatchSize(
                kProfile, {.file_bytes = 4000 * 30 - 1, .plan_bytes = kPlenty}),
            29);
}

TEST(SuperbatchSizeTest, PlanningFitsIntoMemory) {
  EXPECT_EQ(
      SuperbatchSize(kProfile, {.file_bytes = kPlenty, .plan_bytes = 200 * 7}),
      7);
}

TEST(SuperbatchSizeTest, IsAtLeastOneBatch) {
  EXPECT_EQ(SuperbatchSize(kProfile, {}), 1);
  EXPECT_EQ(SuperbatchSize(kProfile, {.file_bytes = 3999, .plan_bytes = 199}),
            1);
}

TEST(SuperbatchSizeTest, BatchesOfNothingTakeNextToNothing) {
  EXPECT_EQ(
      SuperbatchSize({.batches = 1}, {.file_bytes = 20, .plan_bytes = 10}), 10);
}

TEST(SuperbatchSizeTest, LimitsFollowDiskAndCache) {
  const SuperbatchLimits small = LimitsFor(4000, 1000);
  EXPECT_EQ(small.file_bytes, 1000u);
  EXPECT_EQ(small.plan_bytes, 64u << 20);
  const SuperbatchLimits large = LimitsFor(kPlenty, uint64_t{1} << 36);
  EXPECT_EQ(large.file_bytes, 100'000'000'000u);
  EXPECT_EQ(large.plan_bytes, uint64_t{1} << 34);
}

}  // namespace
}  // namespace hearth::strategy
