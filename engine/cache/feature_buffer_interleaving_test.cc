// Steps extractors, a trainer, the releaser and failing reads through ALL
// interleavings of small cases, and checks in every state that is reached what
// must hold in each (extraction_world.h). A wake-up that is lost shows as a
// deadlock.

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/cache/feature_buffer_model_fixture.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::cache {
namespace {

using store::NodeId;

struct Explored {
  int64_t worlds = 0;
  int64_t ends = 0;
  int64_t ends_with_failures = 0;
  int64_t deadlocks = 0;
};

Explored Explore(const ExtractionCase& parameters) {
  Explored result;
  std::set<std::string> seen;
  std::vector<ExtractionWorld> open = {ExtractionWorld(parameters)};
  seen.insert(open.back().Key());
  while (!open.empty() && !::testing::Test::HasFatalFailure()) {
    const ExtractionWorld world = std::move(open.back());
    open.pop_back();
    ++result.worlds;
    world.Check();
    std::vector<ExtractionWorld> next = world.Successors();
    if (world.Ended()) {
      ++result.ends;
      result.ends_with_failures += world.NumFailed() > 0 ? 1 : 0;
    } else if (next.empty()) {
      ++result.deadlocks;
    }
    for (ExtractionWorld& successor : next) {
      if (seen.insert(successor.Key()).second) {
        open.push_back(std::move(successor));
      }
    }
  }
  return result;
}

class InterleavingTest : public ::testing::TestWithParam<ExtractionCase> {};

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
        ExtractionCase{"OneBatchFits", kOverlapping, 3, 2,
                       ExtractionTurns::kByNumber},
        ExtractionCase{"OneBatchFitsThreeExtract", kOverlapping, 3, 3,
                       ExtractionTurns::kByNumber},
        ExtractionCase{"OneBatchFitsInAnyOrder", kOverlapping, 3, 3,
                       ExtractionTurns::kAny},
        ExtractionCase{"OneSlotMore", kOverlapping, 4, 3,
                       ExtractionTurns::kByNumber},
        ExtractionCase{"DistinctNodes", kDistinct, 2, 3,
                       ExtractionTurns::kByNumber},
        ExtractionCase{"DistinctNodesInAnyOrder", kDistinct, 3, 3,
                       ExtractionTurns::kAny},
        ExtractionCase{"EqualBatches", kEqual, 2, 3, ExtractionTurns::kAny},
        ExtractionCase{"ThePapersMinimumWithoutTurns", kOverlapping, 6, 2,
                       ExtractionTurns::kNone},
        ExtractionCase{"DistinctWithoutTurns", kDistinct, 4, 2,
                       ExtractionTurns::kNone},
        ExtractionCase{"AReadFails", kOverlapping, 3, 2,
                       ExtractionTurns::kByNumber, 1},
        ExtractionCase{"AReadFailsInAnyOrder", kOverlapping, 4, 3,
                       ExtractionTurns::kAny, 1},
        ExtractionCase{"TwoReadsFail", kEqual, 3, 3, ExtractionTurns::kAny, 2},
        ExtractionCase{"AReadFailsWithoutTurns", kEqual, 4, 2,
                       ExtractionTurns::kNone, 1}),
    [](const auto& info) { return info.param.name; });

// Without reserve and turns there is a deadlock; and a deadlock is found.
TEST(InterleavingDeadlockTest, ABatchThatDoesNotFitWaitsForEver) {
  EXPECT_GT(
      Explore({"", kOverlapping, 2, 2, ExtractionTurns::kByNumber}).deadlocks,
      0);
}

TEST(InterleavingDeadlockTest, WithoutTurnsLessThanThePapersMinimumLocks) {
  EXPECT_GT(Explore({"", kDistinct, 2, 2, ExtractionTurns::kNone}).deadlocks,
            0);
}

}  // namespace
}  // namespace hearth::cache
