#include "engine/cache/feature_buffer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace hearth::cache {

namespace {

using Outcome = SlotTable::Outcome;
using State = SlotTable::State;

// Loads `node` and gives it back.
void Pass(SlotTable& table, store::NodeId node) {
  const auto claimed = table.Claim(node);
  if (claimed.outcome == Outcome::kMustLoad) table.Publish(claimed.slot);
  table.Release(claimed.slot);
}

TEST(SlotTableTest, EmptySlotsStandByInOrder) {
  const SlotTable table(3);
  EXPECT_EQ(table.num_slots(), 3);
  EXPECT_EQ(table.StandbySlots(), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(table.Find(0), -1);
  EXPECT_EQ(table.state(0), State::kEmpty);
}

TEST(SlotTableTest, AClaimOfANewNodeMustLoadIt) {
  SlotTable table(2);
  const auto claimed = table.Claim(7);
  EXPECT_EQ(claimed.outcome, Outcome::kMustLoad);
  EXPECT_EQ(table.state(claimed.slot), State::kLoading);
  EXPECT_EQ(table.refs(claimed.slot), 1);
  EXPECT_EQ(table.node(claimed.slot), 7);
  EXPECT_EQ(table.Find(7), claimed.slot);
  EXPECT_EQ(table.num_standby(), 1);
}

TEST(SlotTableTest, AClaimOfALoadingNodeKnowsItsSlotAtOnce) {
  SlotTable table(2);
  const int64_t slot = table.Claim(7).slot;
  const auto second = table.Claim(7);
  EXPECT_EQ(second.outcome, Outcome::kLoading);
  EXPECT_EQ(second.slot, slot);
  EXPECT_EQ(table.refs(slot), 2);
}

TEST(SlotTableTest, AClaimOfAValidNodeTakesItOffTheStandbyList) {
  SlotTable table(2);
  Pass(table, 7);
  EXPECT_EQ(table.num_standby(), 2);
  const auto again = table.Claim(7);
  EXPECT_EQ(again.outcome, Outcome::kValid);
  EXPECT_EQ(table.num_standby(), 1);
}

TEST(SlotTableTest, WithoutStandbySlotsNothingIsClaimed) {
  SlotTable table(1);
  table.Claim(1);
  const auto none = table.Claim(2);
  EXPECT_EQ(none.outcome, Outcome::kNoSlot);
  EXPECT_EQ(none.slot, -1);
  EXPECT_EQ(table.Find(2), -1);
  EXPECT_EQ(table.Claim(1).outcome, Outcome::kLoading) << "needs no slot";
  SlotTable without(0);
  EXPECT_EQ(without.Claim(1).outcome, Outcome::kNoSlot);
}

TEST(SlotTableTest, TheLeastRecentlyReleasedIsReused) {
  SlotTable table(3);
  for (const store::NodeId node : {1, 2, 3, 1}) Pass(table, node);
  Pass(table, 4);
  EXPECT_EQ(table.Find(2), -1) << "forgotten only now";
  EXPECT_NE(table.Find(1), -1);
  EXPECT_NE(table.Find(3), -1);
}

TEST(SlotTableTest, ReferencedRowsAreNeverReused) {
  SlotTable table(2);
  const int64_t slot = table.Claim(1).slot;
  table.Publish(slot);
  table.Claim(1);
  table.Release(slot);
  for (store::NodeId node = 2; node < 9; ++node) Pass(table, node);
  EXPECT_EQ(table.Find(1), slot);
  EXPECT_EQ(table.state(slot), State::kValid);
}

TEST(SlotTableTest, PublishTellsWhetherSomebodyAwaits) {
  SlotTable table(2);
  const int64_t slot = table.Claim(1).slot;
  EXPECT_FALSE(table.Publish(slot));
  EXPECT_FALSE(table.Await(slot)) << "it is there";
  const int64_t other = table.Claim(2).slot;
  table.Claim(2);
  EXPECT_TRUE(table.Await(other));
  EXPECT_TRUE(table.Publish(other));
  EXPECT_FALSE(table.awaited(other));
}

TEST(SlotTableTest, AFailedRowIsLoadedAnewElsewhere) {
  SlotTable table(2);
  const int64_t slot = table.Claim(1).slot;
  table.Claim(1);
  EXPECT_TRUE(table.Await(slot));
  EXPECT_TRUE(table.Fail(slot, absl::UnavailableError("EIO")));
  EXPECT_EQ(table.state(slot), State::kFailed);
  EXPECT_EQ(table.error(slot), absl::UnavailableError("EIO"));
  const auto again = table.Claim(1);
  EXPECT_EQ(again.outcome, Outcome::kMustLoad);
  EXPECT_NE(again.slot, slot) << "those who waited still hold it";
  table.Publish(again.slot);
  EXPECT_FALSE(table.Release(slot));
  EXPECT_TRUE(table.Release(slot)) << "the first to stand by";
  EXPECT_EQ(table.state(slot), State::kEmpty);
  EXPECT_EQ(table.Find(1), again.slot);
}

TEST(SlotTableTest, EmptiedSlotsAreReusedFirst) {
  SlotTable table(3);
  Pass(table, 1);
  const int64_t failed = table.Claim(2).slot;
  Pass(table, 3);
  table.Fail(failed, absl::InternalError("x"));
  table.Release(failed);
  EXPECT_EQ(table.StandbySlots().front(), failed);
}

TEST(SlotTableTest, ReleaseTellsWhenSlotsStandByAgain) {
  SlotTable table(2);
  const int64_t first = table.Claim(1).slot;
  const int64_t second = table.Claim(2).slot;
  table.Publish(first);
  table.Publish(second);
  EXPECT_TRUE(table.Release(first));
  EXPECT_FALSE(table.Release(second));
}

TEST(SlotTableTest, BookkeepingTakesFortyBytesASlotAtMost) {
  EXPECT_LE(SlotTable::MemoryBytes(1 << 20), 40u << 20);
  EXPECT_LE(SlotTable::MemoryBytes((1 << 20) + 1), 41u << 20);
}

// Against the plainest LRU list, on ids that collide and on ids that do not.
TEST(SlotTableTest, IsAnLruCacheWhenRowsAreUsedOneByOne) {
  for (const int64_t stride : {int64_t{1}, int64_t{1} << 40}) {
    constexpr int64_t kSlots = 50;
    SlotTable table(kSlots);
    std::list<store::NodeId> lru;
    RandomStream random(3, RandomPurpose::kNeighborSampling, 0, 0, 0);
    for (int i = 0; i < 20000; ++i) {
      const auto node = static_cast<store::NodeId>(random.Below(120)) * stride;
      const auto at = std::find(lru.begin(), lru.end(), node);
      const auto claimed = table.Claim(node);
      ASSERT_EQ(claimed.outcome == Outcome::kValid, at != lru.end());
      if (at != lru.end()) {
        lru.erase(at);
      } else {
        table.Publish(claimed.slot);
        if (lru.size() == kSlots) lru.pop_front();
      }
      lru.push_back(node);
      table.Release(claimed.slot);
    }
    for (const store::NodeId node : lru) EXPECT_NE(table.Find(node), -1);
    EXPECT_EQ(table.num_standby(), kSlots);
  }
}

TEST(ClaimTurnsTest, ByNumberWhateverTheOrderOfArrival) {
  ClaimTurns turns(ClaimTurns::Order::kByNumber, 5);
  std::vector<int64_t> taken;
  std::vector<std::thread> threads;
  for (const int64_t number : {8, 6, 9, 7, 5}) {
    threads.emplace_back([&, number] {
      const auto turn = turns.Take(number, {});
      ASSERT_TRUE(turn.ok());
      taken.push_back(number);  // Guarded by the turn.
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, (std::vector<int64_t>{5, 6, 7, 8, 9}));
}

TEST(ClaimTurnsTest, InAnyOrderOneAtATime) {
  ClaimTurns turns(ClaimTurns::Order::kAny);
  int inside = 0;
  std::vector<std::thread> threads;
  for (int64_t number = 10; number > 0; --number) {
    threads.emplace_back([&, number] {
      for (int i = 0; i < 100; ++i) {
        const auto turn = turns.Take(number, {});
        ASSERT_TRUE(turn.ok());
        EXPECT_EQ(++inside, 1);
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ClaimTurnsTest, AStopEndsTheWait) {
  ClaimTurns turns(ClaimTurns::Order::kByNumber);
  std::stop_source stop;
  std::thread waiter([&] {
    EXPECT_TRUE(absl::IsCancelled(turns.Take(1, stop.get_token()).status()));
  });
  stop.request_stop();
  waiter.join();
  EXPECT_TRUE(turns.Take(0, stop.get_token()).ok()) << "there is no wait";
}

TEST(ClaimTurnsTest, AMovedTurnIsPassedOnOnce) {
  ClaimTurns turns(ClaimTurns::Order::kByNumber);
  std::optional<ClaimTurns::Turn> kept;
  {
    auto turn = turns.Take(0, {});
    ASSERT_TRUE(turn.ok());
    kept.emplace(*std::move(turn));
  }
  std::atomic<bool> released = false;
  std::thread waiter([&] {
    EXPECT_TRUE(turns.Take(1, {}).ok());
    EXPECT_TRUE(released);
  });
  released = true;
  kept.reset();
  waiter.join();
  EXPECT_TRUE(turns.Take(2, {}).ok());
}

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
