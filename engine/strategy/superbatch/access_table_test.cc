#include "engine/strategy/superbatch/access_table.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

// The example of figure 12: node 3 is needed in batches 0, 2 and 4.
const std::vector<std::vector<NodeId>>& Example() {
  static const auto* const batches = new std::vector<std::vector<NodeId>>{
      {3, 4}, {2, 4}, {0, 3}, {0, 1}, {1, 3}};
  return *batches;
}

AccessTable Build(const std::vector<std::vector<NodeId>>& batches,
                  int64_t num_nodes) {
  AccessTable table = *AccessTable::Make(num_nodes);
  for (const auto& batch : batches) EXPECT_TRUE(table.Count(batch).ok());
  EXPECT_TRUE(table.BeginPlacing().ok());
  uint32_t number = 0;
  for (const auto& batch : batches) table.Place(number++, batch);
  table.EndPlacing();
  return table;
}

std::vector<uint32_t> Advance(AccessTable& table,
                              const std::vector<NodeId>& nodes) {
  std::vector<uint32_t> next(nodes.size());
  table.Advance(nodes, absl::MakeSpan(next));
  return next;
}

TEST(AccessTableTest, KnowsTheFirstAndEveryNextBatch) {
  AccessTable table = Build(Example(), 5);
  EXPECT_EQ(table.num_accesses(), 10);
  const std::vector<uint32_t> first = {2, 3, 1, 0, 0};
  for (NodeId node = 0; node < 5; ++node) {
    EXPECT_EQ(table.First(node), first[node]) << node;
  }
  constexpr uint32_t kNever = AccessTable::kNever;
  const std::vector<std::vector<uint32_t>> next = {
      {2, 1}, {kNever, kNever}, {3, 4}, {kNever, 4}, {kNever, kNever}};
  for (size_t i = 0; i < Example().size(); ++i) {
    EXPECT_EQ(Advance(table, Example()[i]), next[i]) << "batch " << i;
  }
}

TEST(AccessTableTest, NodesThatAreNeverNeededAreSkipped) {
  AccessTable table = Build({{2}, {5}, {2}}, 8);
  EXPECT_EQ(table.First(2), 0u);
  EXPECT_EQ(table.First(5), 1u);
  EXPECT_EQ(Advance(table, {2}), std::vector<uint32_t>{2});
  EXPECT_EQ(Advance(table, {5}), std::vector<uint32_t>{AccessTable::kNever});
  EXPECT_EQ(Advance(table, {2}), std::vector<uint32_t>{AccessTable::kNever});
}

TEST(AccessTableTest, BatchesLongerThanWhatIsAskedForAhead) {
  std::vector<NodeId> all;
  for (NodeId node = 0; node < 100; ++node) all.push_back(99 - node);
  AccessTable table = Build({all, all}, 100);
  EXPECT_EQ(Advance(table, all), std::vector<uint32_t>(100, 1));
  EXPECT_EQ(Advance(table, all),
            std::vector<uint32_t>(100, AccessTable::kNever));
}

TEST(AccessTableTest, WithoutNodesOrBatches) {
  AccessTable table = Build({}, 0);
  EXPECT_EQ(table.num_accesses(), 0);
  EXPECT_EQ(Build({{}, {}}, 3).num_accesses(), 0);
}

TEST(AccessTableTest, RefusesNodesOutOfRange) {
  AccessTable table = *AccessTable::Make(3);
  EXPECT_TRUE(absl::IsInvalidArgument(table.Count({0, 3})));
  EXPECT_TRUE(absl::IsInvalidArgument(table.Count({-1})));
  EXPECT_EQ(table.num_accesses(), 0) << "nothing of a bad batch counts";
}

}  // namespace
}  // namespace hearth::strategy
