#include "engine/plan/access_trace.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/random.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::plan {
namespace {

using store::NodeId;

TEST(AccessCountsTest, CountsEachNode) {
  VectorTrace trace({{3, 1}, {}, {1, 0}, {1}});
  const auto counts = AccessCounts::Count(trace, 5, {});
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_nodes(), 5);
  EXPECT_EQ(counts->num_accesses(), 5);
  const int64_t expected[] = {1, 3, 0, 1, 0};
  for (NodeId node = 0; node < 5; ++node) {
    EXPECT_EQ(counts->Of(node), expected[node]) << node;
  }
}

TEST(AccessCountsTest, RanksByPopularityThenNumber) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int trial = 0; trial < 50; ++trial) {
    const auto num_nodes = static_cast<int64_t>(1 + random.Below(60));
    VectorTrace trace(VectorTrace::Random(
        random, num_nodes, static_cast<int64_t>(random.Below(12)),
        static_cast<int64_t>(random.Below(num_nodes + 1))));
    const auto counts = AccessCounts::Count(trace, num_nodes, {});
    ASSERT_TRUE(counts.ok()) << counts.status();
    std::vector<std::tuple<int64_t, NodeId>> ranked;
    for (NodeId node = 0; node < num_nodes; ++node) {
      if (counts->Of(node) > 0) ranked.push_back({-counts->Of(node), node});
    }
    std::sort(ranked.begin(), ranked.end());
    for (const int64_t limit : {int64_t{0}, int64_t{1}, num_nodes / 2,
                                num_nodes, 3 * num_nodes, int64_t{-1}}) {
      std::vector<NodeId> expected;
      for (const auto& [count, node] : ranked) {
        if (std::ssize(expected) < limit) expected.push_back(node);
      }
      EXPECT_EQ(counts->MostAccessed(limit), expected) << limit;
    }
  }
}

TEST(AccessCountsTest, NoNodesAndNoBatches) {
  VectorTrace empty({});
  const auto counts = AccessCounts::Count(empty, 0, {});
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_accesses(), 0);
  EXPECT_TRUE(counts->MostAccessed(5).empty());
}

TEST(AccessCountsTest, RefusesNodesOutOfRange) {
  for (const NodeId node : {NodeId{5}, NodeId{-1}}) {
    VectorTrace trace({{0}, {4, node}});
    const absl::Status status = AccessCounts::Count(trace, 5, {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(std::to_string(node)),
              absl::string_view::npos);
  }
  VectorTrace trace({});
  EXPECT_TRUE(
      absl::IsInvalidArgument(AccessCounts::Count(trace, -1, {}).status()));
}

TEST(AccessCountsTest, ReturnsErrorsAndStops) {
  VectorTrace torn({{0}, {1}});
  torn.FailAt(2);
  EXPECT_TRUE(absl::IsDataLoss(AccessCounts::Count(torn, 5, {}).status()));
  VectorTrace stopped({{0}, {1}});
  stopped.StopAt(1);
  EXPECT_TRUE(absl::IsCancelled(
      AccessCounts::Count(stopped, 5, stopped.stop_token()).status()));
  EXPECT_EQ(stopped.loads(), 1);
}

}  // namespace
}  // namespace hearth::plan
