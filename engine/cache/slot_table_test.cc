#include "engine/cache/slot_table.h"

#include <algorithm>
#include <list>
#include <map>
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

}  // namespace
}  // namespace hearth::cache
