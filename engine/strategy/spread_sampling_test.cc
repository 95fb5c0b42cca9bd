#include "engine/strategy/spread_sampling.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/sample/seed_order.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

std::unique_ptr<sample::SeedOrder> Seeds(int64_t count) {
  std::vector<store::NodeId> nodes(static_cast<size_t>(count));
  std::iota(nodes.begin(), nodes.end(), 0);
  return sample::NewSequentialOrder(std::move(nodes));
}

class SpreadOverTest : public ::testing::Test {
 protected:
  Pass Of(const sample::SeedOrder& order, int64_t shards = 1) {
    return {.order = &order, .sampler = {}, .batch_size = 10, .shards = shards};
  }

  const std::unique_ptr<sample::SeedOrder> long_ = Seeds(995);
  const std::unique_ptr<sample::SeedOrder> short_ = Seeds(21);
};

TEST_F(SpreadOverTest, TakesAllIfThereAreNoMore) {
  const std::vector<Pass> passes = {Of(*short_), Of(*short_, 2)};
  EXPECT_EQ(TotalBatches(passes), 6);
  const std::vector<ShardPick> all = {{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1},
                                      {1, 2}, {1, 3}, {1, 4}, {1, 5}};
  EXPECT_EQ(SpreadOver(passes, 6), all);
  EXPECT_EQ(SpreadOver(passes, INT64_MAX), all);
}

TEST_F(SpreadOverTest, SpreadsSomeEvenlyOverAllPasses) {
  const std::vector<Pass> passes = {Of(*long_), Of(*long_), Of(*short_)};
  const std::vector<ShardPick> picks = SpreadOver(passes, 7);
  ASSERT_EQ(picks.size(), 7u);
  int64_t last = -1;
  for (size_t i = 0; i < picks.size(); ++i) {
    const int64_t number =
        static_cast<int64_t>(picks[i].pass) * 100 + picks[i].number;
    // One in the middle of each seventh of 203.
    EXPECT_EQ(number, (2 * static_cast<int64_t>(i) + 1) * 203 / 14);
    EXPECT_GT(number, last);
    last = number;
  }
}

TEST_F(SpreadOverTest, TakesWholeBatches) {
  const std::vector<Pass> passes = {Of(*long_, 4)};
  const std::vector<ShardPick> picks = SpreadOver(passes, 3);
  ASSERT_EQ(picks.size(), 12u);
  for (size_t i = 0; i < picks.size(); ++i) {
    EXPECT_EQ(picks[i].number % 4, static_cast<int64_t>(i % 4));
    EXPECT_EQ(picks[i].number / 4, picks[i / 4 * 4].number / 4);
  }
}

TEST_F(SpreadOverTest, BeginsWithTheFirstBatch) {
  Pass pass = Of(*short_);
  pass.first_batch = 2;
  EXPECT_EQ(SpreadOver({&pass, 1}, 5), (std::vector<ShardPick>{{0, 2}}));
}

}  // namespace
}  // namespace hearth::strategy
