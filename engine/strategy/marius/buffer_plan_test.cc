#include "engine/strategy/marius/buffer_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/marius/partition_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kRowBytes = 100;

// A graph of 1,000 nodes, of which the first 100 have most of the edges.
class SkewedGraph final : public store::SingleTopology {
 public:
  SkewedGraph() : indptr_(1001) {
    for (int64_t node = 0; node < 1000; ++node) {
      indptr_[node + 1] = indptr_[node] + (node < 100 ? 200 : 5);
    }
    indices_.assign(static_cast<size_t>(indptr_.back()), 0);
    SetView({.indptr = indptr_, .indices = absl::MakeConstSpan(indices_)});
  }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  std::vector<int64_t> indptr_;
  std::vector<int32_t> indices_;
};

// 100 nodes of 900 bytes, 900 of 120.
constexpr uint64_t kAllBytes = 100 * 900 + 900 * 120;

TEST(NodePartitionsTest, TakeAboutAsManyBytesEach) {
  const SkewedGraph graph;
  const NodePartitions parts = NodePartitions::Make(graph, kRowBytes, 1, 10);
  ASSERT_EQ(parts.count(), 10);
  EXPECT_EQ(parts.first(0), 0);
  EXPECT_EQ(parts.first(9) + parts.num_rows(9), 1000);
  int64_t most = 0;
  for (int32_t i = 0; i < 10; ++i) {
    std::vector<store::NodeId> nodes(static_cast<size_t>(parts.num_rows(i)));
    std::iota(nodes.begin(), nodes.end(), parts.first(i));
    EXPECT_NEAR(static_cast<double>(BytesOf(graph, kRowBytes, nodes)),
                kAllBytes / 10.0, 1800);
    for (const store::NodeId node : nodes) {
      EXPECT_EQ(parts.PartitionOf(node), i);
    }
    most = std::max(most, parts.num_rows(i));
  }
  EXPECT_EQ(parts.most_rows(), most);
  // The most rows, and the lists of 22 nodes with 200 neighbors.
  EXPECT_GE(parts.slot_bytes(), static_cast<uint64_t>(most) * 100 + 22 * 800);
}

TEST(NodePartitionsTest, AreOneIfEverythingFits) {
  const SkewedGraph graph;
  EXPECT_EQ(NodePartitions::Make(graph, kRowBytes, kAllBytes, 10).count(), 1);
  EXPECT_EQ(NodePartitions::Make(graph, kRowBytes, kAllBytes - 1, 10).count(),
            10);
}

TEST(NodePartitionsTest, AreSoManyByDefaultThatTheBufferHoldsSome) {
  const SkewedGraph graph;
  for (const uint64_t part : {2, 5, 20}) {
    const NodePartitions parts =
        NodePartitions::Make(graph, kRowBytes, kAllBytes / part, 0);
    EXPECT_GE(kAllBytes / part / parts.slot_bytes(), 2u);
    EXPECT_GE(parts.count(), static_cast<int32_t>(4 * part));
  }
  // Never more than nodes.
  EXPECT_LE(NodePartitions::Make(graph, kRowBytes, 1, 0).count(), 1000);
}

struct Plan {
  Plan(uint64_t buffer_bytes, std::vector<store::NodeId> seeds,
       int64_t batch_size, uint64_t epoch_key = 0)
      : partitions(NodePartitions::Make(graph, kRowBytes, buffer_bytes, 50)),
        states(PlanStates({.topology = graph,
                           .partitions = partitions,
                           .row_bytes = kRowBytes,
                           .buffer_bytes = buffer_bytes,
                           .batch_size = batch_size,
                           .data_seed = 1,
                           .epoch_key = epoch_key},
                          std::move(seeds))) {}

  SkewedGraph graph;
  NodePartitions partitions;
  absl::StatusOr<PassStates> states;
};

// Every `nth` node.
std::vector<store::NodeId> Seeds(int64_t nth) {
  std::vector<store::NodeId> seeds;
  for (store::NodeId node = 999; node >= 0; node -= nth) seeds.push_back(node);
  return seeds;
}

TEST(PlanStatesTest, FewTrainingNodesStayWithRandomPartitions) {
  const Plan plan(80'000, Seeds(10), 30);
  ASSERT_TRUE(plan.states.ok()) << plan.states.status();
  const PassStates& states = *plan.states;
  EXPECT_EQ(states.seeds, Seeds(10));
  ASSERT_EQ(states.states.size(), 1u);
  EXPECT_EQ(states.states[0].kept.size(), 100u);
  EXPECT_TRUE(std::is_sorted(states.states[0].kept.begin(),
                             states.states[0].kept.end()));
  EXPECT_EQ(states.states[0].end_batch, 4);
  const uint64_t kept = BytesOf(plan.graph, kRowBytes, states.seeds);
  EXPECT_EQ(
      states.num_slots,
      static_cast<int32_t>((80'000 - kept) / plan.partitions.slot_bytes()));
  EXPECT_EQ(static_cast<int32_t>(states.states[0].partitions.size()),
            states.num_slots);
  EXPECT_GT(states.num_slots, 3);
  // Other ones in another epoch.
  EXPECT_NE(Plan(80'000, Seeds(10), 30, 1).states->states[0].partitions,
            states.states[0].partitions);
}

TEST(PlanStatesTest, ManyTrainingNodesTakeTurns) {
  for (const int64_t batch_size : {1, 7, 30, 100}) {
    const Plan plan(80'000, Seeds(2), batch_size);
    ASSERT_TRUE(plan.states.ok()) << plan.states.status();
    const PassStates& states = *plan.states;
    std::vector<store::NodeId> seeds = states.seeds;
    std::sort(seeds.rbegin(), seeds.rend());
    EXPECT_EQ(seeds, Seeds(2));
    std::vector<PartitionSet> sets;
    int64_t next = 0;
    for (const BufferState& state : states.states) {
      EXPECT_EQ(state.first_batch, next);
      EXPECT_GT(state.end_batch, next);
      next = state.end_batch;
      sets.push_back(state.partitions);
      EXPECT_LE(static_cast<int32_t>(state.partitions.size()),
                states.num_slots);
      EXPECT_LT(std::ssize(state.kept), batch_size);
      // The seeds of its batches are in its partitions, or kept.
      const int64_t end = std::min<int64_t>(next * batch_size, 500);
      for (int64_t i = state.first_batch * batch_size; i < end; ++i) {
        const store::NodeId seed = states.seeds[i];
        EXPECT_NE(
            std::binary_search(state.partitions.begin(), state.partitions.end(),
                               plan.partitions.PartitionOf(seed)),
            std::binary_search(state.kept.begin(), state.kept.end(), seed));
      }
    }
    EXPECT_EQ(next, (500 + batch_size - 1) / batch_size);
    // No partition comes back.
    EXPECT_LE(CountLoads(sets), plan.partitions.count());
    EXPECT_GT(sets.size(), 2u);
  }
}

// With seeds in all of them.
TEST(PlanStatesTest, AllPartitionsTakeTurns) {
  const Plan plan(80'000, Seeds(1), 1);
  std::vector<PartitionSet> sets;
  for (const BufferState& state : plan.states->states) {
    sets.push_back(state.partitions);
  }
  EXPECT_EQ(CountLoads(sets), 50);
}

TEST(PlanStatesTest, WithoutSeedsThereIsNoState) {
  EXPECT_THAT(Plan(80'000, {}, 30).states->states, IsEmpty());
}

TEST(PlanStatesTest, ABufferForLessThanAPartitionIsRefused) {
  EXPECT_EQ(Plan(3'000, Seeds(10), 30).states.status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace hearth::strategy
