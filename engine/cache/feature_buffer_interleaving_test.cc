// Steps extractors, a trainer, the releaser and failing reads through ALL
// interleavings of small cases, and checks in every state that is reached what
// must hold in each. The steps are the transitions of SlotTable, each of which
// FeatureBuffer makes under its lock, in the order of its protocol; who would
// wait on a condition variable sleeps until a transition says that somebody is
// to be woken, so a wake-up that is lost shows as a deadlock.

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/cache/slot_table.h"
#include "gtest/gtest.h"

namespace hearth::cache {
namespace {

using store::NodeId;

enum class Turns { kByNumber, kAny, kNone };

struct Case {
  std::string name;
  std::vector<std::vector<NodeId>> batches;
  int64_t slots = 0;
  int extractors = 2;
  // Who may claim when; batches are consumed by number with kByNumber.
  Turns turns = Turns::kByNumber;
  int failing_reads = 0;
};

enum class Phase {
  kQueued,
  kWaitsForTurn,
  kClaims,
  kLoads,
  kWaitsForSlot,
  kWaitsForRows,
  kExtracted,
  kReleases,
  kEnded,
};

struct Batch {
  Phase phase = Phase::kQueued;
  bool asleep = false;
  bool failed = false;
  std::vector<int64_t> slots;
  std::vector<int64_t> missing;  // Slots to load.
  std::vector<int64_t> awaited;  // Slots that others load.
  size_t released = 0;
};

// All that is going on, and what can happen next. A value.
class World {
 public:
  explicit World(const Case& parameters)
      : case_(&parameters),
        table_(parameters.slots),
        bytes_(parameters.slots, SlotTable::kNoNode),
        batches_(parameters.batches.size()),
        failing_reads_(parameters.failing_reads) {}

  // Every world that one step leads to.
  std::vector<World> Successors() const {
    std::vector<World> result;
    for (size_t b = 0; b < batches_.size(); ++b) {
      if (!CanStep(b)) continue;
      if (batches_[b].phase != Phase::kLoads) {
        result.push_back(*this);
        result.back().Step(b);
        continue;
      }
      for (size_t i = 0; i < batches_[b].missing.size(); ++i) {
        result.push_back(*this);
        result.back().LoadOne(b, i);
      }
      if (failing_reads_ > 0) {
        result.push_back(*this);
        result.back().FailRead(b);
      }
    }
    return result;
  }

  bool Ended() const {
    return std::all_of(batches_.begin(), batches_.end(),
                       [](const Batch& b) { return b.phase == Phase::kEnded; });
  }

  int NumFailed() const {
    return static_cast<int>(
        std::count_if(batches_.begin(), batches_.end(),
                      [](const Batch& b) { return b.failed; }));
  }

  // Equal for worlds that cannot be told apart.
  std::string Key() const {
    std::string key;
    for (int64_t slot = 0; slot < case_->slots; ++slot) {
      absl::StrAppend(&key, static_cast<int>(table_.state(slot)), ",",
                      table_.node(slot), ",", table_.refs(slot), ",",
                      table_.awaited(slot), ",", bytes_[slot], ";");
    }
    for (const int64_t slot : table_.StandbySlots())
      absl::StrAppend(&key, slot);
    for (const Batch& batch : batches_) {
      absl::StrAppend(&key, "|", static_cast<int>(batch.phase), batch.asleep,
                      batch.failed, batch.released);
      for (const auto* list : {&batch.slots, &batch.missing, &batch.awaited}) {
        absl::StrAppend(&key, "/");
        for (const int64_t slot : *list) absl::StrAppend(&key, slot, ",");
      }
    }
    absl::StrAppend(&key, "|", turn_taken_, next_turn_, next_consumed_,
                    failing_reads_);
    return key;
  }

  // What must hold in every state.
  void Check() const {
    std::vector<int64_t> refs(case_->slots);
    std::vector<int64_t> loaders(case_->slots);
    for (size_t b = 0; b < batches_.size(); ++b) {
      const Batch& batch = batches_[b];
      for (size_t i = batch.released; i < batch.slots.size(); ++i) {
        const int64_t slot = batch.slots[i];
        ++refs[slot];
        if (table_.state(slot) != SlotTable::State::kFailed) {
          ASSERT_EQ(table_.node(slot), case_->batches[b][i]);
        }
        if (table_.state(slot) == SlotTable::State::kValid) {
          ASSERT_EQ(bytes_[slot], case_->batches[b][i]);
        }
      }
      for (const int64_t slot : batch.missing) ++loaders[slot];
    }
    std::set<NodeId> nodes;
    std::vector<int64_t> standby;
    for (int64_t slot = 0; slot < case_->slots; ++slot) {
      CheckSlot(slot, loaders[slot]);
      ASSERT_EQ(table_.refs(slot), refs[slot]);
      if (refs[slot] == 0) standby.push_back(slot);
      if (table_.node(slot) == SlotTable::kNoNode) continue;
      ASSERT_TRUE(nodes.insert(table_.node(slot)).second)
          << "two slots for one node";
    }
    std::vector<int64_t> listed = table_.StandbySlots();
    ASSERT_EQ(static_cast<int64_t>(listed.size()), table_.num_standby());
    std::sort(listed.begin(), listed.end());
    ASSERT_EQ(listed, standby);
  }

 private:
  void CheckSlot(int64_t slot, int64_t loaders) const {
    const SlotTable::State state = table_.state(slot);
    const NodeId node = table_.node(slot);
    const bool loading = state == SlotTable::State::kLoading;
    ASSERT_EQ(loaders, loading ? 1 : 0);
    ASSERT_EQ(node != SlotTable::kNoNode,
              loading || state == SlotTable::State::kValid);
    if (node != SlotTable::kNoNode) {
      ASSERT_EQ(table_.Find(node), slot);
    }
    if (state == SlotTable::State::kValid) {
      ASSERT_EQ(bytes_[slot], node);
    }
    if (table_.awaited(slot)) {
      ASSERT_TRUE(loading);
    }
  }

  bool CanStep(size_t b) const {
    const Batch& batch = batches_[b];
    if (batch.asleep) return false;
    const bool by_number = case_->turns == Turns::kByNumber;
    switch (batch.phase) {
      case Phase::kQueued:
        return NumExtracting() < case_->extractors &&
               (!by_number || b == 0 ||
                batches_[b - 1].phase != Phase::kQueued);
      case Phase::kWaitsForTurn:
        return case_->turns == Turns::kNone ||
               (!turn_taken_ && (!by_number || next_turn_ == b));
      case Phase::kExtracted:
        return !by_number || next_consumed_ == b;
      case Phase::kEnded:
        return false;
      default:
        return true;
    }
  }

  int NumExtracting() const {
    return static_cast<int>(
        std::count_if(batches_.begin(), batches_.end(), [](const Batch& batch) {
          return batch.phase != Phase::kQueued &&
                 batch.phase < Phase::kExtracted;
        }));
  }

  void Step(size_t b) {
    Batch& batch = batches_[b];
    switch (batch.phase) {
      case Phase::kQueued:
        batch.phase = Phase::kWaitsForTurn;
        return;
      case Phase::kWaitsForTurn:
        turn_taken_ = true;
        batch.phase = Phase::kClaims;
        return;
      case Phase::kClaims:
        return ClaimOne(b);
      case Phase::kWaitsForSlot:
        batch.asleep = table_.num_standby() == 0;
        if (!batch.asleep) batch.phase = Phase::kClaims;
        return;
      case Phase::kWaitsForRows:
        return AwaitOne(b);
      case Phase::kExtracted:
        batch.phase = Phase::kReleases;
        return;
      case Phase::kReleases:
        return ReleaseOne(b);
      default:
        FAIL() << "no step";
    }
  }

  void ClaimOne(size_t b) {
    Batch& batch = batches_[b];
    const auto claimed = table_.Claim(case_->batches[b][batch.slots.size()]);
    if (claimed.outcome == SlotTable::Outcome::kNoSlot) {
      batch.phase =
          batch.missing.empty() ? Phase::kWaitsForSlot : Phase::kLoads;
      return;
    }
    batch.slots.push_back(claimed.slot);
    if (claimed.outcome == SlotTable::Outcome::kMustLoad) {
      batch.missing.push_back(claimed.slot);
      bytes_[claimed.slot] = SlotTable::kNoNode;
    } else if (claimed.outcome == SlotTable::Outcome::kLoading) {
      batch.awaited.push_back(claimed.slot);
    }
    if (!AllClaimed(b)) return;
    PassTurn();
    batch.phase = batch.missing.empty() ? Phase::kWaitsForRows : Phase::kLoads;
  }

  bool AllClaimed(size_t b) const {
    return batches_[b].slots.size() == case_->batches[b].size();
  }

  void PassTurn() {
    turn_taken_ = false;
    ++next_turn_;
  }

  void LoadOne(size_t b, size_t index) {
    Batch& batch = batches_[b];
    const int64_t slot = batch.missing[index];
    bytes_[slot] = table_.node(slot);
    batch.missing.erase(batch.missing.begin() + static_cast<int64_t>(index));
    if (table_.Publish(slot)) Wake(Phase::kWaitsForRows);
    if (!batch.missing.empty()) return;
    batch.phase = AllClaimed(b) ? Phase::kWaitsForRows : Phase::kWaitsForSlot;
  }

  void FailRead(size_t b) {
    Batch& batch = batches_[b];
    --failing_reads_;
    bool awaited = false;
    for (const int64_t slot : batch.missing) {
      awaited = table_.Fail(slot, absl::UnavailableError("EIO")) || awaited;
    }
    batch.missing.clear();
    if (awaited) Wake(Phase::kWaitsForRows);
    if (!AllClaimed(b)) PassTurn();
    GiveUp(b);
  }

  void AwaitOne(size_t b) {
    Batch& batch = batches_[b];
    if (batch.awaited.empty()) {
      batch.phase = Phase::kExtracted;
      for (size_t i = 0; i < batch.slots.size(); ++i) {
        ASSERT_EQ(bytes_[batch.slots[i]], case_->batches[b][i]);
      }
      return;
    }
    batch.asleep = table_.Await(batch.awaited.front());
    if (batch.asleep) return;
    if (table_.state(batch.awaited.front()) == SlotTable::State::kFailed) {
      EXPECT_TRUE(absl::IsUnavailable(table_.error(batch.awaited.front())));
      return GiveUp(b);
    }
    batch.awaited.erase(batch.awaited.begin());
  }

  void GiveUp(size_t b) {
    batches_[b].failed = true;
    batches_[b].awaited.clear();
    batches_[b].phase = Phase::kReleases;
    if (batches_[b].slots.empty()) End(b);
  }

  void ReleaseOne(size_t b) {
    Batch& batch = batches_[b];
    if (table_.Release(batch.slots[batch.released++])) {
      Wake(Phase::kWaitsForSlot);
    }
    if (batch.released == batch.slots.size()) End(b);
  }

  void End(size_t b) {
    batches_[b].phase = Phase::kEnded;
    while (next_consumed_ < batches_.size() &&
           batches_[next_consumed_].phase == Phase::kEnded) {
      ++next_consumed_;
    }
  }

  void Wake(Phase phase) {
    for (Batch& batch : batches_) {
      if (batch.phase == phase) batch.asleep = false;
    }
  }

  const Case* case_;
  SlotTable table_;
  // The node whose row is in each slot.
  std::vector<NodeId> bytes_;
  std::vector<Batch> batches_;
  bool turn_taken_ = false;
  size_t next_turn_ = 0;
  size_t next_consumed_ = 0;
  int failing_reads_;
};

struct Explored {
  int64_t worlds = 0;
  int64_t ends = 0;
  int64_t ends_with_failures = 0;
  int64_t deadlocks = 0;
};

Explored Explore(const Case& parameters) {
  Explored result;
  std::set<std::string> seen;
  std::vector<World> open = {World(parameters)};
  seen.insert(open.back().Key());
  while (!open.empty() && !::testing::Test::HasFatalFailure()) {
    const World world = std::move(open.back());
    open.pop_back();
    ++result.worlds;
    world.Check();
    std::vector<World> next = world.Successors();
    if (world.Ended()) {
      ++result.ends;
      result.ends_with_failures += world.NumFailed() > 0 ? 1 : 0;
    } else if (next.empty()) {
      ++result.deadlocks;
    }
    for (World& successor : next) {
      if (seen.insert(successor.Key()).second) {
        open.push_back(std::move(successor));
      }
    }
  }
  return result;
}

class InterleavingTest : public ::testing::TestWithParam<Case> {};

TEST_P(InterleavingTest, EveryWayEndsWell) {
  const Explored explored = Explore(GetParam());
  EXPECT_EQ(explored.deadlocks, 0);
  EXPECT_GT(explored.ends, 0);
  EXPECT_GT(explored.worlds, 100);
  EXPECT_EQ(explored.ends_with_failures > 0, GetParam().failing_reads > 0);
  RecordProperty("worlds", static_cast<int>(explored.worlds));
}

const std::vector<std::vector<NodeId>> kOverlapping = {
    {0, 1, 2}, {2, 1, 3}, {3, 0, 2}};
const std::vector<std::vector<NodeId>> kEqual = {{0, 1}, {1, 0}, {0, 1}};
const std::vector<std::vector<NodeId>> kDistinct = {{0, 1}, {2, 3}, {4, 5}};

INSTANTIATE_TEST_SUITE_P(
    All, InterleavingTest,
    ::testing::Values(
        Case{"OneBatchFits", kOverlapping, 3, 2, Turns::kByNumber},
        Case{"OneBatchFitsThreeExtract", kOverlapping, 3, 3, Turns::kByNumber},
        Case{"OneBatchFitsInAnyOrder", kOverlapping, 3, 3, Turns::kAny},
        Case{"OneSlotMore", kOverlapping, 4, 3, Turns::kByNumber},
        Case{"DistinctNodes", kDistinct, 2, 3, Turns::kByNumber},
        Case{"DistinctNodesInAnyOrder", kDistinct, 3, 3, Turns::kAny},
        Case{"EqualBatches", kEqual, 2, 3, Turns::kAny},
        Case{"ThePapersMinimumWithoutTurns", kOverlapping, 6, 2, Turns::kNone},
        Case{"DistinctWithoutTurns", kDistinct, 4, 2, Turns::kNone},
        Case{"AReadFails", kOverlapping, 3, 2, Turns::kByNumber, 1},
        Case{"AReadFailsInAnyOrder", kOverlapping, 4, 3, Turns::kAny, 1},
        Case{"TwoReadsFail", kEqual, 3, 3, Turns::kAny, 2},
        Case{"AReadFailsWithoutTurns", kEqual, 4, 2, Turns::kNone, 1}),
    [](const auto& info) { return info.param.name; });

// What the reserve and the turns are for; and that a deadlock would be found.
TEST(InterleavingDeadlockTest, ABatchThatDoesNotFitWaitsForEver) {
  EXPECT_GT(Explore({"", kOverlapping, 2, 2, Turns::kByNumber}).deadlocks, 0);
}

TEST(InterleavingDeadlockTest, WithoutTurnsLessThanThePapersMinimumLocks) {
  EXPECT_GT(Explore({"", kDistinct, 2, 2, Turns::kNone}).deadlocks, 0);
}

}  // namespace
}  // namespace hearth::cache
