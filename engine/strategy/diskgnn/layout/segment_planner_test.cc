#include "engine/strategy/diskgnn/layout/segment_planner.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/random.h"
#include "engine/plan/access_counts.h"
#include "engine/plan/vector_trace.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/memory_levels.h"
#include "engine/strategy/diskgnn/layout/minhash_order.h"
#include "engine/strategy/diskgnn/layout/segmentation.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

MemoryLevels Levels(plan::VectorTrace& trace, int64_t num_nodes,
                    const MemoryLevels::Rows& rows) {
  return *MemoryLevels::Choose(*plan::AccessCounts::Count(trace, num_nodes, {}),
                               rows);
}

// How often the segment needs each node that the memory levels do not hold.
std::map<NodeId, int64_t> CountsBelowMemory(const plan::VectorTrace& trace,
                                            const MemoryLevels& levels,
                                            const Segment& segment) {
  std::map<NodeId, int64_t> counts;
  for (int64_t b = segment.begin; b < segment.end; ++b) {
    for (const NodeId node : trace.batches()[b]) {
      if (!levels.Holds(node)) ++counts[node];
    }
  }
  return counts;
}

std::vector<NodeId> ExpectedCached(const std::map<NodeId, int64_t>& counts,
                                   int64_t max_rows) {
  std::vector<std::pair<int64_t, NodeId>> ranked;
  for (const auto& [node, count] : counts) {
    if (count > 1) ranked.push_back({-count, node});
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<NodeId> cached;
  for (const auto& [count, node] : ranked) {
    if (std::ssize(cached) < max_rows) cached.push_back(node);
  }
  std::sort(cached.begin(), cached.end());
  return cached;
}

TEST(SegmentPlannerTest, CachesWhatTwoBatchesNeed) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int trial = 0; trial < 40; ++trial) {
    plan::VectorTrace trace(plan::VectorTrace::Random(random, 80, 12, 15));
    const MemoryLevels levels =
        Levels(trace, 80, {.gpu = trial % 3 * 4, .cpu = trial % 5 * 4});
    const auto planner = *SegmentPlanner::Make(trace, levels);
    const Segmentation segmentation = {
        .num_batches = 12,
        .segment_size = static_cast<int64_t>(1 + random.Below(12)),
        .max_rows = trial % 2 == 0 ? Segmentation::kUnbounded
                                   : static_cast<int64_t>(random.Below(40))};
    for (int64_t i = 0; i < segmentation.num_segments(); ++i) {
      const Segment segment = SegmentAt(segmentation, i);
      ASSERT_TRUE(planner->Choose(segment, {}).ok());
      const auto counts = CountsBelowMemory(trace, levels, segment);
      const std::vector<NodeId> cached =
          ExpectedCached(counts, segment.max_rows);
      EXPECT_EQ(std::vector<NodeId>(planner->cached_nodes().begin(),
                                    planner->cached_nodes().end()),
                cached);
      int64_t packed = 0;
      for (const auto& [node, count] : counts) {
        const bool is_cached =
            std::binary_search(cached.begin(), cached.end(), node);
        EXPECT_EQ(planner->LevelOf(node),
                  is_cached ? Level::kDisk : Level::kPack);
        if (!is_cached) packed += count;
      }
      EXPECT_EQ(planner->num_packed_rows(), packed);
    }
  }
}

TEST(SegmentPlannerTest, OrdersByMinHash) {
  RandomStream random(2, RandomPurpose::kGenerator);
  plan::VectorTrace trace(plan::VectorTrace::Random(random, 300, 10, 60));
  const MemoryLevels levels = Levels(trace, 300, {.cpu = 20});
  const auto planner = *SegmentPlanner::Make(trace, levels);
  const Segment segment = {.index = 1, .begin = 3, .end = 9};
  ASSERT_TRUE(planner->Choose(segment, {}).ok());
  ASSERT_TRUE(planner->Order(/*seed=*/5, {}).ok());
  const auto cached = planner->cached_nodes();
  ASSERT_GT(cached.size(), 20u);
  MinHashOrder order(std::ssize(cached), 6, 5, 1);
  for (int64_t b = 3; b < 9; ++b) {
    for (uint32_t row = 0; row < cached.size(); ++row) {
      const auto& nodes = trace.batches()[b];
      if (std::count(nodes.begin(), nodes.end(), cached[row]) > 0) {
        order.Add(b - 3, row);
      }
    }
  }
  const std::vector<uint32_t> places = std::move(order).Places();
  for (size_t row = 0; row < cached.size(); ++row) {
    EXPECT_EQ(planner->places()[row], places[row]);
    EXPECT_EQ(planner->PlaceOf(cached[row]), places[row]);
  }
}

TEST(SegmentPlannerTest, MemoryLevelsComeFirst) {
  plan::VectorTrace trace({{1, 2, 3}, {1, 2}, {1}});
  const MemoryLevels levels = Levels(trace, 4, {.gpu = 1, .cpu = 1});
  const auto planner = *SegmentPlanner::Make(trace, levels);
  ASSERT_TRUE(planner->Choose({.begin = 0, .end = 3}, {}).ok());
  EXPECT_EQ(planner->LevelOf(1), Level::kGpu);
  EXPECT_EQ(planner->LevelOf(2), Level::kCpu);
  EXPECT_EQ(planner->LevelOf(3), Level::kPack);
  EXPECT_TRUE(planner->cached_nodes().empty());
}

TEST(SegmentPlannerTest, ReturnsErrorsAndStops) {
  plan::VectorTrace fine({{1}, {1}});
  const MemoryLevels levels = Levels(fine, 4, {});
  for (const NodeId node : {NodeId{4}, NodeId{-1}}) {
    plan::VectorTrace trace({{1}, {node}});
    const absl::Status status = (*SegmentPlanner::Make(trace, levels))
                                    ->Choose({.begin = 0, .end = 2}, {});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(std::to_string(node)),
              absl::string_view::npos);
  }
  for (int64_t load = 1; load <= 4; ++load) {
    plan::VectorTrace trace({{1}, {1}});
    trace.FailAt(load);
    const auto planner = *SegmentPlanner::Make(trace, levels);
    absl::Status status = planner->Choose({.begin = 0, .end = 2}, {});
    if (status.ok()) status = planner->Order(1, {});
    EXPECT_TRUE(absl::IsDataLoss(status)) << load << ": " << status;
  }
  for (int64_t load = 1; load <= 3; ++load) {
    plan::VectorTrace trace({{1}, {1}});
    trace.StopAt(load);
    const auto planner = *SegmentPlanner::Make(trace, levels);
    absl::Status status =
        planner->Choose({.begin = 0, .end = 2}, trace.stop_token());
    if (status.ok()) status = planner->Order(1, trace.stop_token());
    EXPECT_TRUE(absl::IsCancelled(status)) << load << ": " << status;
  }
}

TEST(SegmentationTest, SharesItsRowsAmongTheBatches) {
  for (int64_t size = 1; size <= 11; ++size) {
    const Segmentation segmentation = {
        .num_batches = 10, .segment_size = size, .max_rows = 7};
    int64_t begin = 0;
    int64_t rows = 0;
    for (int64_t i = 0; i < segmentation.num_segments(); ++i) {
      const Segment segment = SegmentAt(segmentation, i);
      EXPECT_EQ(segment.index, i);
      EXPECT_EQ(segment.begin, begin);
      EXPECT_GT(segment.size(), 0);
      EXPECT_LE(segment.size(), size);
      begin = segment.end;
      rows += segment.max_rows;
    }
    EXPECT_EQ(begin, 10);
    EXPECT_EQ(rows, 7);
  }
}

}  // namespace
}  // namespace hearth::strategy
