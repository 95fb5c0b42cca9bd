#include "engine/strategy/sampling.h"

#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

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

std::unique_ptr<sample::SeedOrder> SeedNodes(int64_t count) {
  std::vector<store::NodeId> nodes(static_cast<size_t>(count));
  std::iota(nodes.begin(), nodes.end(), 0);
  return sample::NewSequentialOrder(std::move(nodes));
}

class SpreadOverTest : public ::testing::Test {
 protected:
  Pass Of(const sample::SeedOrder& order, int64_t shards = 1) {
    return {.order = &order, .sampler = {}, .batch_size = 10, .shards = shards};
  }

  const std::unique_ptr<sample::SeedOrder> long_ = SeedNodes(995);
  const std::unique_ptr<sample::SeedOrder> short_ = SeedNodes(21);
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

class SampleShardsTest : public ::testing::Test {
 protected:
  // The input nodes of a shard, and the pulled nodes of its top layer.
  struct Shard {
    std::vector<store::NodeId> inputs;
    std::vector<int32_t> pulled;

    bool operator==(const Shard&) const = default;
  };
  using Shards = std::map<std::pair<size_t, int64_t>, Shard>;

  void SetUp() override {
    const auto path = hearth::testing::ImportPlantedGraph(
        {.num_nodes = 100}, scratch_.Path("planted"));
    ASSERT_TRUE(path.ok()) << path.status();
    dataset_ = *store::Dataset::Open(io::FileSystem::Posix(), *path);
    topology_ = *dataset_->LoadTopology(store::Residency::kMemory);
    labels_ = *dataset_->LoadLabels(0);
    resumed_ = policy_;
    resumed_.live = {{.slot = 7, .batch = 2}, {.slot = 50, .batch = 1}};
  }

  // Two passes of ten batches with two shards each; one pass begins in the
  // middle.
  std::vector<Pass> Passes() const {
    const Pass pass = {.order = order_.get(),
                       .sampler = {.fanouts = {3, 2}},
                       .batch_size = 10,
                       .shards = 2,
                       .history = &policy_};
    std::vector<Pass> passes = {pass, pass};
    passes[1].first_batch = 3;
    passes[1].history = &resumed_;
    return passes;
  }

  Shards Sample(int64_t most, bool with_histories, int samplers) const {
    const std::vector<Pass> passes = Passes();
    Shards shards;
    const absl::Status status = SampleShards(
        {.clock = Clock::Real(),
         .source = SampleSource{.topology = *topology_, .labels = labels_},
         .samplers = samplers,
         .with_histories = with_histories},
        passes, SpreadOver(passes, most),
        [&](const ShardPick& pick, const sample::MiniBatch& batch) {
          Shard& shard = shards[{pick.pass, pick.number}];
          shard.inputs = batch.input_nodes;
          if (batch.top.has_value()) shard.pulled = batch.top->pulled;
          EXPECT_EQ(batch.top.has_value(), with_histories);
          return absl::OkStatus();
        },
        std::stop_token());
    EXPECT_TRUE(status.ok()) << status;
    return shards;
  }

  const io::ScratchDirectory scratch_;
  std::unique_ptr<store::Dataset> dataset_;
  std::unique_ptr<store::LoadedTopology> topology_;
  store::Labels labels_;
  const std::unique_ptr<sample::SeedOrder> order_ = SeedNodes(100);
  const sample::HistoryPolicy policy_ = {
      .candidates = std::make_shared<sample::HistoryCandidates>(
          order_->Epoch(0), /*num_nodes=*/100),
      .staleness = 4};
  // A policy for a pass that begins with kept embeddings.
  sample::HistoryPolicy resumed_;
};

TEST_F(SampleShardsTest, SomeAreThoseAmongAllWithAHistoryToo) {
  for (const bool with_histories : {false, true}) {
    SCOPED_TRACE(with_histories);
    const Shards all = Sample(INT64_MAX, with_histories, 1);
    ASSERT_EQ(all.size(), 34u);
    EXPECT_EQ(Sample(INT64_MAX, with_histories, 3), all);
    const Shards some = Sample(4, with_histories, 2);
    ASSERT_EQ(some.size(), 8u);
    for (const auto& [pick, shard] : some) {
      EXPECT_EQ(shard, all.at(pick)) << pick.first << " " << pick.second;
    }
  }
}

TEST_F(SampleShardsTest, WhatIsPulledNeedsNoInputs) {
  const Shards exact = Sample(INT64_MAX, /*with_histories=*/false, 1);
  const Shards pulling = Sample(INT64_MAX, /*with_histories=*/true, 1);
  size_t pulled = 0;
  for (const auto& [pick, shard] : pulling) {
    pulled += shard.pulled.size();
    EXPECT_LE(shard.inputs.size(), exact.at(pick).inputs.size());
    // A pass that begins at its first batch has no kept embeddings.
    if (pick.first == 0 && pick.second < 2) {
      EXPECT_TRUE(shard.pulled.empty());
    }
  }
  EXPECT_GT(pulled, 0u);
}

// Node v has in-neighbors 0 .. v - 1.
class TestTopology final : public store::SingleTopology {
 public:
  using SingleTopology::SetView;
  absl::Status status() const override { return absl::OkStatus(); }
};

class MeasureBatchesTest : public ::testing::Test {
 protected:
  MeasureBatchesTest() {
    indptr_.push_back(0);
    for (int32_t node = 0; node < kNodes; ++node) {
      for (int32_t neighbor = 0; neighbor < node; ++neighbor) {
        indices_.push_back(neighbor);
      }
      indptr_.push_back(static_cast<int64_t>(indices_.size()));
    }
    topology_.SetView(
        {.indptr = indptr_, .indices = absl::MakeConstSpan(indices_)});
    std::iota(seeds_.begin(), seeds_.end(), 0);
    labels_ = store::Labels::Classes(std::vector<int32_t>(kNodes), 2);
  }

  absl::StatusOr<BatchBound> Measure(int64_t batch_size, const DryRun& run,
                                     std::stop_token stop = {},
                                     int64_t shards = 1) {
    Pass pass;
    pass.sampler = {.fanouts = {-1}};
    pass.batch_size = batch_size;
    pass.shards = shards;
    return MeasureBatches(pass, seeds_, {topology_, labels_}, run, stop);
  }

  static constexpr int32_t kNodes = 50;
  std::vector<int64_t> indptr_;
  std::vector<int32_t> indices_;
  const std::vector<int64_t> no_edges_ = std::vector<int64_t>(kNodes + 1);
  TestTopology topology_;
  std::vector<store::NodeId> seeds_ = std::vector<store::NodeId>(kNodes);
  store::Labels labels_;
};

TEST_F(MeasureBatchesTest, FindsTheLargestOfAll) {
  for (const int threads : {1, 3}) {
    const auto bound = Measure(1, {.clock = Clock::Real(), .threads = threads});
    ASSERT_TRUE(bound.ok()) << bound.status();
    EXPECT_EQ(bound->largest.num_inputs(), kNodes)
        << "the last node and all before it";
    EXPECT_EQ(bound->bound.num_inputs(), kNodes);
  }
}

TEST_F(MeasureBatchesTest, SpreadsFewSamplesOverThePass) {
  // Batches 0, 12, 25 and 37 of 50.
  const auto bound = Measure(1, {.clock = Clock::Real(), .most_batches = 4});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->largest.num_inputs(), 38);
}

TEST_F(MeasureBatchesTest, ShardsAreMeasuredOneByOne) {
  topology_.SetView(
      {.indptr = no_edges_, .indices = absl::Span<const int32_t>()});
  const auto bound = Measure(20, {.clock = Clock::Real()}, {}, /*shards=*/3);
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->largest.num_inputs(), 7)
      << "seeds of 20 for the third one of 3 shards";
  EXPECT_EQ(bound->bound.nodes.back(), 7);
}

TEST_F(MeasureBatchesTest, OfNoSeeds) {
  seeds_.clear();
  const auto bound = Measure(10, {.clock = Clock::Real()});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->largest.num_inputs(), 0);
}

TEST_F(MeasureBatchesTest, StopsWhenAsked) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(
      Measure(1, {.clock = Clock::Real()}, stop.get_token()).status()));
}

}  // namespace

}  // namespace hearth::strategy
