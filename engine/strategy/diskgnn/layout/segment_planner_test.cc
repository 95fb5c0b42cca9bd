#include "engine/strategy/diskgnn/layout/segment_planner.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/plan/access_trace.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::strategy {

namespace {

using Entry = std::pair<int64_t, int32_t>;

TEST(RadixSortTest, SortsAsStableSortDoes) {
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<Entry> scratch;
  for (const size_t size : {0, 1, 2, 100, 5000}) {
    for (const uint64_t below : {uint64_t{1}, uint64_t{7}, uint64_t{2048},
                                 uint64_t{1} << 33, uint64_t{INT64_MAX}}) {
      std::vector<Entry> values;
      for (size_t i = 0; i < size; ++i) {
        values.emplace_back(static_cast<int64_t>(random.Below(below)),
                            static_cast<int32_t>(i));
      }
      std::vector<Entry> expected = values;
      std::sort(expected.begin(), expected.end());
      RadixSort(values, scratch,
                [](const Entry& entry) { return entry.first; });
      EXPECT_EQ(values, expected) << size << " below " << below;
    }
  }
}

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

// For each batch, the rows that it needs.
using Needs = std::vector<std::vector<uint32_t>>;

std::vector<uint32_t> PlacesOf(const Needs& needs, int64_t num_rows,
                               uint64_t seed = 7, int64_t segment = 3) {
  MinHashOrder order(num_rows, std::ssize(needs), seed, segment);
  for (size_t batch = 0; batch < needs.size(); ++batch) {
    for (const uint32_t row : needs[batch]) {
      order.Add(static_cast<int64_t>(batch), row);
    }
  }
  return std::move(order).Places();
}

Needs RandomNeeds(RandomStream& random, int64_t batches, int64_t num_rows) {
  Needs needs(static_cast<size_t>(batches));
  for (auto& rows : needs) {
    for (uint32_t row = 0; row < num_rows; ++row) {
      if (random.Below(3) == 0) rows.push_back(row);
    }
  }
  return needs;
}

// Algorithm 1 written plainly, one function at a time. Ranks of batches are
// taken from rows that only one batch needs.
std::vector<uint32_t> SlowPlaces(const Needs& needs, uint32_t num_rows) {
  const auto batches = static_cast<uint32_t>(needs.size());
  std::vector<std::vector<uint32_t>> ranks;
  for (uint64_t j = 0; j < 2; ++j) {
    RandomStream random(7, RandomPurpose::kReordering, 3, j);
    std::vector<uint32_t> permutation(batches);
    std::iota(permutation.begin(), permutation.end(), 0u);
    for (size_t i = batches; i > 1; --i) {
      std::swap(permutation[i - 1], permutation[random.Below(i)]);
    }
    ranks.push_back(permutation);
  }
  std::map<std::vector<uint32_t>, std::vector<uint32_t>> rows_of;
  for (uint32_t row = 0; row < num_rows; ++row) {
    std::vector<uint32_t> signature(2, batches);
    for (uint32_t batch = 0; batch < batches; ++batch) {
      if (std::count(needs[batch].begin(), needs[batch].end(), row) == 0) {
        continue;
      }
      for (int j = 0; j < 2; ++j) {
        signature[j] = std::min(signature[j], ranks[j][batch]);
      }
    }
    rows_of[signature].push_back(row);
  }
  std::vector<uint32_t> places(num_rows);
  uint32_t place = 0;
  for (const auto& [signature, rows] : rows_of) {
    for (const uint32_t row : rows) places[row] = place++;
  }
  return places;
}

TEST(MinHashOrderTest, IsAlgorithmOne) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int trial = 0; trial < 100; ++trial) {
    const auto num_rows = static_cast<uint32_t>(random.Below(40));
    const Needs needs =
        RandomNeeds(random, static_cast<int64_t>(random.Below(12)), num_rows);
    EXPECT_EQ(PlacesOf(needs, num_rows), SlowPlaces(needs, num_rows));
  }
}

TEST(MinHashOrderTest, RowsOfTheSameBatchesAreNeighbors) {
  // 4 kinds of rows, spread evenly over the numbers.
  constexpr uint32_t kRows = 64;
  Needs needs(8);
  for (uint32_t row = 0; row < kRows; ++row) {
    needs[2 * (row % 4)].push_back(row);
    needs[2 * (row % 4) + 1].push_back(row);
  }
  const std::vector<uint32_t> places = PlacesOf(needs, kRows);
  for (uint32_t kind = 0; kind < 4; ++kind) {
    std::set<uint32_t> of_kind;
    for (uint32_t row = kind; row < kRows; row += 4) {
      of_kind.insert(places[row]);
    }
    EXPECT_EQ(*of_kind.rbegin() - *of_kind.begin() + 1, kRows / 4) << kind;
  }
}

TEST(MinHashOrderTest, PlacesAreAPermutationAndRepeat) {
  RandomStream random(2, RandomPurpose::kGenerator);
  const Needs needs = RandomNeeds(random, 30, 500);
  std::vector<uint32_t> places = PlacesOf(needs, 500);
  EXPECT_EQ(places, PlacesOf(needs, 500));
  EXPECT_NE(places, PlacesOf(needs, 500, /*seed=*/8));
  EXPECT_NE(places, PlacesOf(needs, 500, /*seed=*/7, /*segment=*/4));
  std::sort(places.begin(), places.end());
  for (uint32_t place = 0; place < 500; ++place)
    EXPECT_EQ(places[place], place);
}

TEST(MinHashOrderTest, NothingToOrder) {
  EXPECT_TRUE(PlacesOf({}, 0).empty());
  EXPECT_TRUE(PlacesOf({{}, {}}, 0).empty());
  // Rows that no batch needs keep their order, at the end.
  EXPECT_EQ(PlacesOf({{}, {2}}, 3), (std::vector<uint32_t>{1, 2, 0}));
}

MemoryLevels Levels(plan::VectorTrace& trace, int64_t num_nodes,
                    const MemoryLevels::Rows& rows) {
  return *MemoryLevels::Choose(*plan::AccessCounts::Count(trace, num_nodes, {}),
                               rows);
}

// The number of batches of the segment that need each node below the memory
// levels.
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
