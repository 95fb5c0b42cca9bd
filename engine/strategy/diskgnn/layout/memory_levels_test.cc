#include "engine/strategy/diskgnn/layout/memory_levels.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/plan/access_counts.h"
#include "engine/plan/vector_trace.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

class MemoryLevelsTest : public ::testing::Test {
 protected:
  // Node 4 three times, 2 and 6 twice, 0 and 5 once, 1, 3 and 7 never.
  MemoryLevelsTest() : trace_({{4, 6, 2}, {6, 4, 0}, {2, 4, 5}}) {
    counts_ = plan::AccessCounts::Count(trace_, 8, {});
  }

  plan::VectorTrace trace_;
  absl::StatusOr<plan::AccessCounts> counts_ =
      absl::UnknownError("not counted");
};

std::vector<NodeId> ToVector(absl::Span<const NodeId> nodes) {
  return {nodes.begin(), nodes.end()};
}

TEST_F(MemoryLevelsTest, TheMostPopularAreInTheFastest) {
  const auto levels = MemoryLevels::Choose(*counts_, {.gpu = 2, .cpu = 2});
  ASSERT_TRUE(levels.ok()) << levels.status();
  EXPECT_EQ(ToVector(levels->gpu_nodes()), (std::vector<NodeId>{2, 4}));
  EXPECT_EQ(ToVector(levels->cpu_nodes()), (std::vector<NodeId>{0, 6}));
  for (const NodeId node : {1, 3, 5, 7}) EXPECT_FALSE(levels->Holds(node));
  for (int64_t slot = 0; slot < 2; ++slot) {
    const NodeId on_gpu = levels->gpu_nodes()[slot];
    EXPECT_EQ(levels->LevelOf(on_gpu), Level::kGpu);
    EXPECT_EQ(levels->SlotOf(on_gpu), slot);
    const NodeId on_cpu = levels->cpu_nodes()[slot];
    EXPECT_EQ(levels->LevelOf(on_cpu), Level::kCpu);
    EXPECT_EQ(levels->SlotOf(on_cpu), slot);
  }
}

TEST_F(MemoryLevelsTest, NodesWithoutAccessesAreNeverHeld) {
  const auto levels =
      MemoryLevels::Choose(*counts_, {.gpu = 0, .cpu = INT64_MAX});
  ASSERT_TRUE(levels.ok()) << levels.status();
  EXPECT_TRUE(levels->gpu_nodes().empty());
  EXPECT_EQ(ToVector(levels->cpu_nodes()),
            (std::vector<NodeId>{0, 2, 4, 5, 6}));
  const auto on_gpu =
      MemoryLevels::Choose(*counts_, {.gpu = INT64_MAX, .cpu = INT64_MAX});
  EXPECT_EQ(on_gpu->gpu_nodes().size(), 5u);
  EXPECT_TRUE(on_gpu->cpu_nodes().empty());
}

TEST_F(MemoryLevelsTest, NoCachesHoldNothing) {
  const auto levels = MemoryLevels::Choose(*counts_, {});
  ASSERT_TRUE(levels.ok()) << levels.status();
  for (NodeId node = 0; node < 8; ++node) EXPECT_FALSE(levels->Holds(node));
}

TEST_F(MemoryLevelsTest, RefusesNegativeNumbers) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      MemoryLevels::Choose(*counts_, {.gpu = -1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      MemoryLevels::Choose(*counts_, {.cpu = -1}).status()));
}

}  // namespace
}  // namespace hearth::strategy
