#include "engine/cache/feature_buffer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/random.h"
#include "engine/cache/claim_turns.h"
#include "gtest/gtest.h"

namespace hearth::cache {
namespace {

using store::NodeId;

constexpr int64_t kRowBytes = 24;

FeatureBuffer MakeBuffer(int64_t slots) {
  return FeatureBuffer(*SlotArena::Make(slots, kRowBytes));
}

// The bytes of a node's row.
std::vector<std::byte> Row(NodeId node) {
  std::vector<std::byte> row(kRowBytes);
  for (int64_t i = 0; i < kRowBytes; ++i) {
    row[i] = static_cast<std::byte>(31 * node + i);
  }
  return row;
}

void LoadMissing(const std::vector<NodeId>& nodes, FeatureBuffer::Pins& pins) {
  for (size_t i = 0; i < pins.missing().size(); ++i) {
    pins.Load(i, Row(nodes[pins.missing()[i]]).data());
  }
  pins.FinishLoading();
}

void ExpectRows(const FeatureBuffer& buffer, const std::vector<NodeId>& nodes,
                const FeatureBuffer::Pins& pins) {
  ASSERT_EQ(pins.slots().size(), nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    ASSERT_EQ(std::memcmp(buffer.arena().row(pins.slots()[i]),
                          Row(nodes[i]).data(), kRowBytes),
              0)
        << "node " << nodes[i];
  }
}

TEST(FeatureBufferTest, LoadsWhatIsMissingOnce) {
  FeatureBuffer buffer = MakeBuffer(4);
  const std::vector<NodeId> nodes = {9, 4, 7};
  FeatureBuffer::Pins first(buffer);
  EXPECT_TRUE(first.Claim(nodes));
  EXPECT_EQ(first.missing().size(), 3u);
  LoadMissing(nodes, first);
  EXPECT_EQ(first.num_missed(), 3);
  ExpectRows(buffer, nodes, first);
  FeatureBuffer::Pins second(buffer);
  const std::vector<NodeId> others = {7, 9, 1};
  EXPECT_TRUE(second.Claim(others));
  EXPECT_EQ(second.missing().size(), 1u);
  LoadMissing(others, second);
  EXPECT_TRUE(second.AwaitRows({}).ok());
  ExpectRows(buffer, others, second);
  EXPECT_EQ(buffer.num_standby(), 0);
}

TEST(FeatureBufferTest, GoesOnClaimingOnceSlotsStandBy) {
  FeatureBuffer buffer = MakeBuffer(3);
  FeatureBuffer::Pins first(buffer);
  EXPECT_TRUE(first.Claim(std::vector<NodeId>{1, 2}));
  LoadMissing({1, 2}, first);
  const std::vector<NodeId> nodes = {3, 4, 5};
  FeatureBuffer::Pins second(buffer);
  EXPECT_FALSE(second.Claim(nodes));
  EXPECT_EQ(second.slots().size(), 1u);
  LoadMissing(nodes, second);
  std::thread releaser([&first] { first.Release(); });
  while (!second.Claim(nodes)) {
    LoadMissing(nodes, second);
    ASSERT_TRUE(second.AwaitSlot({}).ok());
  }
  LoadMissing(nodes, second);
  releaser.join();
  ExpectRows(buffer, nodes, second);
  EXPECT_EQ(second.num_missed(), 3);
}

TEST(FeatureBufferTest, WaitsForRowsThatOthersLoad) {
  FeatureBuffer buffer = MakeBuffer(2);
  const std::vector<NodeId> nodes = {1, 2};
  FeatureBuffer::Pins loader(buffer);
  EXPECT_TRUE(loader.Claim(nodes));
  std::thread waiter([&] {
    FeatureBuffer::Pins pins(buffer);
    EXPECT_TRUE(pins.Claim(nodes));
    EXPECT_TRUE(pins.missing().empty());
    EXPECT_TRUE(pins.AwaitRows({}).ok());
    ExpectRows(buffer, nodes, pins);
  });
  LoadMissing(nodes, loader);
  waiter.join();
}

// Without waiting: a stop was requested.
bool AreThere(FeatureBuffer& buffer, const std::vector<NodeId>& nodes) {
  std::stop_source stopped;
  stopped.request_stop();
  FeatureBuffer::Pins pins(buffer);
  EXPECT_TRUE(pins.Claim(nodes));
  EXPECT_TRUE(pins.missing().empty());
  return pins.AwaitRows(stopped.get_token()).ok();
}

TEST(FeatureBufferTest, RowsArePublishedInBlocksAndAllOfThemAtTheEnd) {
  constexpr int64_t kRows = 1000;
  FeatureBuffer buffer = MakeBuffer(kRows);
  std::vector<NodeId> nodes(kRows);
  std::iota(nodes.begin(), nodes.end(), 0);
  FeatureBuffer::Pins loader(buffer);
  EXPECT_TRUE(loader.Claim(nodes));
  for (size_t i = 0; i + 1 < kRows; ++i) {
    loader.Load(i, Row(nodes[loader.missing()[i]]).data());
  }
  EXPECT_TRUE(AreThere(buffer, {0, 1}));
  EXPECT_FALSE(AreThere(buffer, {0, kRows - 1}));
  loader.Load(kRows - 1, Row(kRows - 1).data());
  loader.FinishLoading();
  EXPECT_TRUE(AreThere(buffer, nodes));
  ExpectRows(buffer, nodes, loader);
}

TEST(FeatureBufferTest, AFailedLoadTellsAllWhoWaitAndIsTriedAnew) {
  FeatureBuffer buffer = MakeBuffer(4);
  const std::vector<NodeId> nodes = {1, 2};
  {
    FeatureBuffer::Pins loader(buffer);
    EXPECT_TRUE(loader.Claim(nodes));
    FeatureBuffer::Pins waiting(buffer);
    EXPECT_TRUE(waiting.Claim(nodes));
    loader.Load(0, Row(1).data());
    std::thread waiter([&] {
      EXPECT_EQ(waiting.AwaitRows({}), absl::UnavailableError("EIO"));
    });
    loader.FailLoading(absl::UnavailableError("EIO"));
    waiter.join();
    EXPECT_EQ(waiting.AwaitRows({}), absl::UnavailableError("EIO"));
  }
  EXPECT_EQ(buffer.num_standby(), 4);
  FeatureBuffer::Pins again(buffer);
  EXPECT_TRUE(again.Claim(nodes));
  EXPECT_EQ(again.missing().size(), 1u) << "node 1 had arrived";
  LoadMissing(nodes, again);
  ExpectRows(buffer, nodes, again);
}

TEST(FeatureBufferTest, WhatIsGivenUpFailsForThoseWhoWait) {
  FeatureBuffer buffer = MakeBuffer(2);
  FeatureBuffer::Pins waiting(buffer);
  {
    FeatureBuffer::Pins loader(buffer);
    EXPECT_TRUE(loader.Claim(std::vector<NodeId>{1}));
    EXPECT_TRUE(waiting.Claim(std::vector<NodeId>{1}));
  }
  EXPECT_TRUE(absl::IsCancelled(waiting.AwaitRows({})));
  waiting.Release();
  EXPECT_EQ(buffer.num_standby(), 2);
}

TEST(FeatureBufferTest, AStopEndsEveryWait) {
  FeatureBuffer buffer = MakeBuffer(1);
  FeatureBuffer::Pins loader(buffer);
  EXPECT_TRUE(loader.Claim(std::vector<NodeId>{1}));
  std::stop_source stop;
  std::thread slot_waiter([&] {
    FeatureBuffer::Pins pins(buffer);
    EXPECT_FALSE(pins.Claim(std::vector<NodeId>{2}));
    EXPECT_TRUE(absl::IsCancelled(pins.AwaitSlot(stop.get_token())));
  });
  std::thread row_waiter([&] {
    FeatureBuffer::Pins pins(buffer);
    EXPECT_TRUE(pins.Claim(std::vector<NodeId>{1}));
    EXPECT_TRUE(absl::IsCancelled(pins.AwaitRows(stop.get_token())));
  });
  stop.request_stop();
  slot_waiter.join();
  row_waiter.join();
}

TEST(FeatureBufferTest, PinsMoveAndAreReleasedOnce) {
  FeatureBuffer buffer = MakeBuffer(2);
  {
    FeatureBuffer::Pins first(buffer);
    EXPECT_TRUE(first.Claim(std::vector<NodeId>{1}));
    LoadMissing({1}, first);
    FeatureBuffer::Pins second = std::move(first);
    FeatureBuffer::Pins third;
    third = std::move(second);
    EXPECT_EQ(third.slots().size(), 1u);
    EXPECT_EQ(buffer.num_standby(), 1);
  }
  EXPECT_EQ(buffer.num_standby(), 2);
}

TEST(FeatureBufferTest, ABatchOfNoRows) {
  FeatureBuffer buffer = MakeBuffer(0);
  FeatureBuffer::Pins pins(buffer);
  EXPECT_TRUE(pins.Claim({}));
  EXPECT_TRUE(pins.AwaitRows({}).ok());
}

// Extractors under turns, with as many slots as the largest batch, rows that
// arrive in any order and reads that fail now and then.
struct Stress {
  ClaimTurns::Order order;
  int64_t slots;
  int failing_every;
};

class FeatureBufferStressTest : public ::testing::TestWithParam<Stress> {};

constexpr int64_t kNodesPerBatch = 40;

std::vector<NodeId> RandomNodes(int64_t batch) {
  std::vector<NodeId> nodes(120);
  std::iota(nodes.begin(), nodes.end(), 0);
  RandomStream random(5, RandomPurpose::kNeighborSampling, 0, batch, 0);
  for (int64_t i = 0; i < kNodesPerBatch; ++i) {
    std::swap(nodes[i], nodes[i + random.Below(nodes.size() - i)]);
  }
  nodes.resize(1 + batch % kNodesPerBatch);
  return nodes;
}

absl::Status Extract(const std::vector<NodeId>& nodes, bool fail,
                     FeatureBuffer::Pins& pins) {
  bool all = false;
  while (!all) {
    all = pins.Claim(nodes);
    for (size_t i = pins.missing().size(); i-- > 0;) {
      if (fail && i == 0) {
        pins.FailLoading(absl::UnavailableError("EIO"));
        return absl::UnavailableError("EIO");
      }
      pins.Load(i, Row(nodes[pins.missing()[i]]).data());
    }
    pins.FinishLoading();
    if (!all) {
      if (const auto status = pins.AwaitSlot({}); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

TEST_P(FeatureBufferStressTest, EveryBatchHasItsRows) {
  constexpr int64_t kBatches = 1500;
  FeatureBuffer buffer = MakeBuffer(GetParam().slots);
  ClaimTurns turns(GetParam().order);
  std::atomic<int64_t> next = 0;
  std::atomic<int64_t> failed = 0;
  std::vector<std::thread> extractors;
  for (int t = 0; t < 4; ++t) {
    extractors.emplace_back([&] {
      while (true) {
        const int64_t batch = next++;
        if (batch >= kBatches) return;
        const std::vector<NodeId> nodes = RandomNodes(batch);
        const int every = GetParam().failing_every;
        FeatureBuffer::Pins pins(buffer);
        absl::Status status;
        {
          const auto turn = turns.Take(batch, {});
          status = Extract(nodes, every > 0 && batch % every == 0, pins);
        }
        if (status.ok()) status = pins.AwaitRows({});
        if (status.ok()) ExpectRows(buffer, nodes, pins);
        failed += status.ok() ? 0 : 1;
      }
    });
  }
  for (std::thread& extractor : extractors) extractor.join();
  EXPECT_EQ(failed > 0, GetParam().failing_every > 0);
  EXPECT_EQ(buffer.num_standby(), GetParam().slots);
}

INSTANTIATE_TEST_SUITE_P(
    All, FeatureBufferStressTest,
    ::testing::Values(Stress{ClaimTurns::Order::kByNumber, kNodesPerBatch, 0},
                      Stress{ClaimTurns::Order::kAny, kNodesPerBatch, 0},
                      Stress{ClaimTurns::Order::kByNumber, 3 * kNodesPerBatch,
                             7},
                      Stress{ClaimTurns::Order::kAny, kNodesPerBatch + 5, 3}));

// Each loads outside of the turn, as extractors do, with room for two batches.
TEST(FeatureBufferRaceTest, LoadsOverlapWithClaims) {
  FeatureBuffer buffer = MakeBuffer(2 * kNodesPerBatch);
  ClaimTurns turns(ClaimTurns::Order::kAny);
  std::atomic<int64_t> next = 0;
  std::vector<std::thread> extractors;
  for (int t = 0; t < 4; ++t) {
    extractors.emplace_back([&] {
      for (int64_t batch = next++; batch < 1500; batch = next++) {
        const std::vector<NodeId> nodes = RandomNodes(batch);
        FeatureBuffer::Pins pins(buffer);
        {
          const auto turn = turns.Take(batch, {});
          while (!pins.Claim(nodes)) {
            LoadMissing(nodes, pins);
            ASSERT_TRUE(pins.AwaitSlot({}).ok());
          }
        }
        LoadMissing(nodes, pins);
        ASSERT_TRUE(pins.AwaitRows({}).ok());
        ExpectRows(buffer, nodes, pins);
      }
    });
  }
  for (std::thread& extractor : extractors) extractor.join();
  EXPECT_EQ(buffer.num_standby(), 2 * kNodesPerBatch);
}

}  // namespace
}  // namespace hearth::cache
