#include "engine/strategy/sample_stage.h"

#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

Pass MakePass(int64_t batch_size, int64_t shards, int64_t first_batch = 0) {
  Pass pass;
  pass.batch_size = batch_size;
  pass.shards = shards;
  pass.epoch_key = 9;
  pass.first_batch = first_batch;
  return pass;
}

std::vector<store::NodeId> Seeds(int64_t count) {
  std::vector<store::NodeId> seeds(static_cast<size_t>(count));
  std::iota(seeds.begin(), seeds.end(), 0);
  return seeds;
}

TEST(ShardsOfTest, WholeBatchesFromTheFirstOne) {
  const ShardRange all = ShardsOf(MakePass(10, 3), 21);
  EXPECT_EQ(all.first, 0);
  EXPECT_EQ(all.count, 9);
  const ShardRange rest = ShardsOf(MakePass(10, 3, /*first_batch=*/2), 21);
  EXPECT_EQ(rest.first, 6);
  EXPECT_EQ(rest.count, 3);
  EXPECT_EQ(ShardsOf(MakePass(10, 3), 0).count, 0);
}

TEST(MostSeedsTest, IsTheSizeOfTheLargestShard) {
  EXPECT_EQ(MostSeeds(MakePass(10, 1), 21), 10);
  EXPECT_EQ(MostSeeds(MakePass(10, 3), 21), 4);
  EXPECT_EQ(MostSeeds(MakePass(10, 3), 6), 2);
  EXPECT_EQ(MostSeeds(MakePass(10, 3), 0), 0);
}

TEST(ShardSeedsTest, OneShardIsTheBatch) {
  const auto seeds = Seeds(7);
  const Pass pass = MakePass(5, 1);
  EXPECT_THAT(ShardSeeds(pass, seeds, 0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(ShardSeeds(pass, seeds, 1), ElementsAre(5, 6));
}

TEST(ShardSeedsTest, ShardsAreRunsOfNearlyEqualLength) {
  const auto seeds = Seeds(13);
  const Pass pass = MakePass(8, 3);
  EXPECT_THAT(ShardSeeds(pass, seeds, 0), ElementsAre(0, 1));
  EXPECT_THAT(ShardSeeds(pass, seeds, 1), ElementsAre(2, 3, 4));
  EXPECT_THAT(ShardSeeds(pass, seeds, 2), ElementsAre(5, 6, 7));
  EXPECT_THAT(ShardSeeds(pass, seeds, 3), ElementsAre(8));
  EXPECT_THAT(ShardSeeds(pass, seeds, 4), ElementsAre(9, 10));
  EXPECT_THAT(ShardSeeds(pass, seeds, 5), ElementsAre(11, 12));
}

TEST(ShardSeedsTest, TooFewSeedsLeaveShardsEmpty) {
  const auto seeds = Seeds(10);
  const Pass pass = MakePass(8, 4);
  EXPECT_THAT(ShardSeeds(pass, seeds, 4), IsEmpty());
  EXPECT_THAT(ShardSeeds(pass, seeds, 5), ElementsAre(8));
  EXPECT_THAT(ShardSeeds(pass, seeds, 6), IsEmpty());
  EXPECT_THAT(ShardSeeds(pass, seeds, 7), ElementsAre(9));
}

TEST(ShardSeedsTest, EachSeedIsInOneShard) {
  const auto seeds = Seeds(101);
  for (const int64_t shards : {1, 2, 3, 7, 16}) {
    const Pass pass = MakePass(16, shards);
    std::vector<store::NodeId> all;
    for (int64_t number = 0; number < ShardsOf(pass, 101).count; ++number) {
      const auto shard = ShardSeeds(pass, seeds, number);
      all.insert(all.end(), shard.begin(), shard.end());
    }
    EXPECT_THAT(all, ElementsAreArray(seeds)) << shards;
  }
}

TEST(KeyOfShardTest, IsThatOfTheBatch) {
  const Pass pass = MakePass(8, 3);
  for (int64_t number = 0; number < 9; ++number) {
    EXPECT_EQ(KeyOfShard(pass, number).epoch_key, 9u);
    EXPECT_EQ(KeyOfShard(pass, number).batch,
              static_cast<uint64_t>(number / 3));
  }
}

TEST(QueueCapacityTest, HoldsWholeBatches) {
  EXPECT_EQ(QueueCapacity(MakePass(8, 1), 6), 6);
  EXPECT_EQ(QueueCapacity(MakePass(8, 4), 6), 24);
}

}  // namespace
}  // namespace hearth::strategy
