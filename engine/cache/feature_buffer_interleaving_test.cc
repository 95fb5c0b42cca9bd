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

Explored Explore(const FeatureBufferCase& parameters) {
  Explored result;
  std::set<std::string> seen;
  std::vector<FeatureBufferModel> open = {FeatureBufferModel(parameters)};
  seen.insert(open.back().Key());
  while (!open.empty() && !::testing::Test::HasFatalFailure()) {
    const FeatureBufferModel state = std::move(open.back());
    open.pop_back();
    ++result.worlds;
    state.Check();
    std::vector<FeatureBufferModel> next = state.Successors();
    if (state.Ended()) {
      ++result.ends;
      result.ends_with_failures += state.NumFailed() > 0 ? 1 : 0;
    } else if (next.empty()) {
      ++result.deadlocks;
    }
    for (FeatureBufferModel& successor : next) {
      if (seen.insert(successor.Key()).second) {
        open.push_back(std::move(successor));
      }
    }
  }
  return result;
}

class InterleavingTest : public ::testing::TestWithParam<FeatureBufferCase> {};

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
        FeatureBufferCase{"OneBatchFits", kOverlapping, 3, 2,
                          ModelTurns::kByNumber},
        FeatureBufferCase{"OneBatchFitsThreeExtract", kOverlapping, 3, 3,
                          ModelTurns::kByNumber},
        FeatureBufferCase{"OneBatchFitsInAnyOrder", kOverlapping, 3, 3,
                          ModelTurns::kAny},
        FeatureBufferCase{"OneSlotMore", kOverlapping, 4, 3,
                          ModelTurns::kByNumber},
        FeatureBufferCase{"DistinctNodes", kDistinct, 2, 3,
                          ModelTurns::kByNumber},
        FeatureBufferCase{"DistinctNodesInAnyOrder", kDistinct, 3, 3,
                          ModelTurns::kAny},
        FeatureBufferCase{"EqualBatches", kEqual, 2, 3, ModelTurns::kAny},
        FeatureBufferCase{"ThePapersMinimumWithoutTurns", kOverlapping, 6, 2,
                          ModelTurns::kNone},
        FeatureBufferCase{"DistinctWithoutTurns", kDistinct, 4, 2,
                          ModelTurns::kNone},
        FeatureBufferCase{"AReadFails", kOverlapping, 3, 2,
                          ModelTurns::kByNumber, 1},
        FeatureBufferCase{"AReadFailsInAnyOrder", kOverlapping, 4, 3,
                          ModelTurns::kAny, 1},
        FeatureBufferCase{"TwoReadsFail", kEqual, 3, 3, ModelTurns::kAny, 2},
        FeatureBufferCase{"AReadFailsWithoutTurns", kEqual, 4, 2,
                          ModelTurns::kNone, 1}),
    [](const auto& info) { return info.param.name; });

// Without reserve and turns there is a deadlock; and a deadlock is found.
TEST(InterleavingDeadlockTest, ABatchThatDoesNotFitWaitsForEver) {
  EXPECT_GT(Explore({"", kOverlapping, 2, 2, ModelTurns::kByNumber}).deadlocks,
            0);
}

TEST(InterleavingDeadlockTest, WithoutTurnsLessThanThePapersMinimumLocks) {
  EXPECT_GT(Explore({"", kDistinct, 2, 2, ModelTurns::kNone}).deadlocks, 0);
}

}  // namespace
}  // namespace hearth::cache
