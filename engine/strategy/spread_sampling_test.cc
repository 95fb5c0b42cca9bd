#include "engine/strategy/spread_sampling.h"

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
#include "engine/io/scratch_directory.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/residency.h"
#include "engine/strategy/pass.h"
#include "gtest/gtest.h"
#include "tests/fixtures/planted_graph.h"

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

class SampleShardsTest : public ::testing::Test {
 protected:
  // The input nodes of a shard, and the nodes of its top layer that are pulled.
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

  // Two passes of ten batches with two shards each, of which one begins in the
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
         .source = {.topology = *topology_, .labels = labels_},
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
  const std::unique_ptr<sample::SeedOrder> order_ = Seeds(100);
  const sample::HistoryPolicy policy_ = {
      .candidates = std::make_shared<sample::HistoryCandidates>(
          order_->Epoch(0), /*num_nodes=*/100),
      .staleness = 4};
  // The policy, with embeddings that are there when the pass begins.
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
    // Nothing is there yet when a pass begins at its first batch.
    if (pick.first == 0 && pick.second < 2) {
      EXPECT_TRUE(shard.pulled.empty());
    }
  }
  EXPECT_GT(pulled, 0u);
}

}  // namespace
}  // namespace hearth::strategy
