#include "engine/sample/history.h"

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
#include "engine/sample/graph_fixture.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TopLayer TopOf(std::vector<NodeId> nodes) {
  TopLayer top;
  top.in_degrees.resize(nodes.size());
  top.nodes = std::move(nodes);
  return top;
}

HistoryPolicy PolicyOf(const std::vector<NodeId>& candidates,
                       int64_t staleness) {
  return {.candidates = std::make_shared<HistoryCandidates>(candidates, 100),
          .staleness = staleness};
}

std::vector<NodeId> NodesAt(const TopLayer& top,
                            const std::vector<int32_t>& positions) {
  std::vector<NodeId> nodes;
  for (const int32_t position : positions) nodes.push_back(top.nodes[position]);
  return nodes;
}

TEST(HistoryCandidatesTest, HaveTheSlotsOfTheirOrder) {
  const HistoryCandidates candidates({{7, 3, 99}}, 100);
  EXPECT_EQ(candidates.size(), 3);
  EXPECT_EQ(candidates.SlotOf(7), 0);
  EXPECT_EQ(candidates.SlotOf(3), 1);
  EXPECT_EQ(candidates.SlotOf(99), 2);
  EXPECT_EQ(candidates.SlotOf(4), HistoryCandidates::kNone);
}

TEST(HistoryCandidatesTest, OtherNodesHaveAnotherDigest) {
  const std::string digest = HistoryCandidates({{7, 3, 99}}, 100).digest();
  EXPECT_EQ(digest, HistoryCandidates({{7, 3, 99}}, 101).digest());
  EXPECT_NE(digest, HistoryCandidates({{3, 7, 99}}, 100).digest());
  EXPECT_NE(digest, HistoryCandidates({{7, 3}}, 100).digest());
}

// Every sequence of up to six batches that contain any of two candidates,
// compared with a dictionary of the batch that pushed each.
TEST(HistoryDecisionsTest, AreThoseOfADictionary) {
  constexpr int kBatches = 6;
  for (int64_t staleness = 1; staleness <= 4; ++staleness) {
    const HistoryPolicy policy = PolicyOf({10, 20}, staleness);
    for (int sequence = 0; sequence < 1 << (2 * kBatches); ++sequence) {
      HistoryDecisions decisions(policy);
      std::map<NodeId, int64_t> pushed;
      for (int64_t batch = 0; batch < kBatches; ++batch) {
        const int met = sequence >> (2 * batch);
        // The last node is no candidate.
        std::vector<NodeId> nodes;
        if ((met & 1) != 0) nodes.push_back(10);
        if ((met & 2) != 0) nodes.push_back(20);
        nodes.push_back(30);
        std::vector<NodeId> pulls;
        std::vector<NodeId> pushes;
        int64_t age = 0;
        for (const NodeId node : nodes) {
          if (node == 30) continue;
          if (pushed.contains(node) && batch - pushed[node] < staleness) {
            pulls.push_back(node);
            age += batch - pushed[node];
          } else {
            pushes.push_back(node);
            pushed[node] = batch;
          }
        }
        TopLayer top = TopOf(nodes);
        decisions.Decide(batch, top);
        ASSERT_EQ(NodesAt(top, top.pulled), pulls) << sequence;
        ASSERT_EQ(NodesAt(top, top.pushed), pushes) << sequence;
        ASSERT_EQ(top.sum_of_ages, age);
        ASSERT_TRUE(CheckTopLayer(top).ok());
        ASSERT_TRUE(staleness > 1 || top.pulled.empty());
        ASSERT_LT(age,
                  std::max<int64_t>(1, staleness * std::ssize(top.pulled)));
      }
    }
  }
}

TEST(HistoryDecisionsTest, OfTwoShardsTheFirstPushes) {
  const HistoryPolicy policy = PolicyOf({1, 2}, 3);
  HistoryDecisions decisions(policy);
  TopLayer first = TopOf({1, 5});
  TopLayer second = TopOf({2, 1});
  decisions.Decide(0, first);
  decisions.Decide(0, second);
  EXPECT_THAT(first.pushed, ElementsAre(0));
  EXPECT_THAT(second.pushed, ElementsAre(0));
  EXPECT_THAT(second.computed, ElementsAre(0, 1));
  EXPECT_THAT(second.pulled, IsEmpty());
  // The next batch pulls the node in both.
  decisions.Decide(1, first);
  decisions.Decide(1, second);
  EXPECT_THAT(first.pulled, ElementsAre(0));
  EXPECT_THAT(second.pulled, ElementsAre(0, 1));
  EXPECT_EQ(second.sum_of_ages, 2);
}

TEST(HistoryDecisionsTest, GoOnFromWhatIsLive) {
  HistoryPolicy policy = PolicyOf({1, 2, 3}, 4);
  HistoryDecisions whole(policy);
  TopLayer all = TopOf({1, 2});
  whole.Decide(5, all);
  policy.live = {{.slot = 0, .batch = 5}, {.slot = 1, .batch = 5}};
  HistoryDecisions resumed(policy);
  for (int64_t batch = 6; batch < 12; ++batch) {
    TopLayer expected = TopOf({3, 2, 1, 9});
    TopLayer actual = expected;
    whole.Decide(batch, expected);
    resumed.Decide(batch, actual);
    EXPECT_EQ(actual.pulled, expected.pulled) << batch;
    EXPECT_EQ(actual.pushed, expected.pushed) << batch;
  }
}

TEST(CheckTopLayerTest, WantsEachNodeOnce) {
  const auto check = [](auto spoil) {
    TopLayer top = TopOf({4, 5, 6});
    top.computed = {0, 2};
    top.pulled = {1};
    top.pushed = {2};
    spoil(top);
    return CheckTopLayer(top);
  };
  EXPECT_TRUE(check([](TopLayer&) {}).ok());
  const std::vector<void (*)(TopLayer&)> spoils = {
      [](TopLayer& top) { top.pulled.clear(); },
      [](TopLayer& top) { top.pulled = {2}; },
      [](TopLayer& top) {
        top.computed = {2, 0};
      },
      [](TopLayer& top) {
        top.computed = {0, 3};
      },
      [](TopLayer& top) { top.pushed = {1}; },
      [](TopLayer& top) {
        top.pushed = {2, 2};
      },
      [](TopLayer& top) { top.in_degrees.clear(); }};
  for (const auto spoil : spoils) {
    EXPECT_TRUE(absl::IsInvalidArgument(check(spoil)));
  }
}

class TopSamplingTest : public ::testing::Test {
 protected:
  static constexpr int64_t kNodes = 600;

  std::unique_ptr<NeighborSampler> NewSampler() const {
    return NewNeighborSampler(graph_.topology(),
                              {.fanouts = {7, 5, 4}, .data_seed = 3});
  }

  static std::vector<NodeId> Seeds() {
    std::vector<NodeId> seeds;
    for (NodeId node = 1; node < kNodes; node += 13) seeds.push_back(node);
    return seeds;
  }

  const Graph graph_ = RandomGraph(kNodes);
  const BatchKey key_ = {.epoch_key = 2, .batch = 9};
};

TEST_F(TopSamplingTest, WithNothingPulledTheBatchIsThatOfOneStep) {
  const auto sampler = NewSampler();
  const MiniBatch expected = *sampler->Sample(key_, Seeds());
  MiniBatch batch = *sampler->SampleTop(key_, Seeds());
  EXPECT_TRUE(batch.input_nodes.empty());
  batch.top->computed.resize(batch.top->nodes.size());
  std::iota(batch.top->computed.begin(), batch.top->computed.end(), 0);
  // A different sampler may take the second step.
  ASSERT_TRUE(NewSampler()->SampleRest(batch).ok());
  ExpectEqual(expected, batch);
  EXPECT_EQ(batch.num_seeds, std::ssize(Seeds()));
}

// Batches with pulled nodes: remaining nodes have the same neighbors as
// without, and nodes that only pulled nodes need are absent.
TEST_F(TopSamplingTest, PulledNodesPruneTheirNeighborhoodsAndNothingElse) {
  const auto sampler = NewSampler();
  const MiniBatch whole = *sampler->Sample(key_, Seeds());
  MiniBatch batch = *sampler->SampleTop(key_, Seeds());
  TopLayer& top = *batch.top;
  for (size_t i = 0; i < top.nodes.size(); ++i) {
    (top.nodes[i] % 3 == 0 ? top.pulled : top.computed)
        .push_back(static_cast<int32_t>(i));
  }
  ASSERT_TRUE(sampler->SampleRest(batch).ok());
  EXPECT_EQ(top.nodes,
            std::vector<NodeId>(
                whole.input_nodes.begin(),
                whole.input_nodes.begin() + whole.blocks.back().num_sources));
  EXPECT_EQ(batch.blocks.back().indices, whole.blocks.back().indices);

  // Neighbors of each destination of a block, by node.
  const auto neighbors = [](const MiniBatch& of, size_t layer) {
    std::map<NodeId, std::vector<NodeId>> lists;
    const Block& block = of.blocks[layer];
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      auto& list = lists[of.input_nodes[row]];
      for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
           ++edge) {
        list.push_back(of.input_nodes[block.indices[edge]]);
      }
    }
    return lists;
  };
  std::set<NodeId> needed;
  for (const int32_t position : top.computed) {
    needed.insert(top.nodes[position]);
  }
  EXPECT_EQ(batch.blocks[1].num_destinations, std::ssize(top.computed));
  for (const size_t layer : {1, 0}) {
    const auto all = neighbors(whole, layer);
    const auto some = neighbors(batch, layer);
    EXPECT_EQ(some.size(), needed.size());
    for (const NodeId node : std::set<NodeId>(needed)) {
      ASSERT_TRUE(some.contains(node));
      // Another layer may draw for a node that the whole batch has met before.
      if (const auto found = all.find(node); found != all.end()) {
        EXPECT_EQ(some.at(node), found->second);
      }
      needed.insert(some.at(node).begin(), some.at(node).end());
    }
  }
  EXPECT_EQ(
      std::set<NodeId>(batch.input_nodes.begin(), batch.input_nodes.end()),
      needed);
  EXPECT_LT(batch.input_nodes.size(), whole.input_nodes.size());
  EXPECT_EQ(batch.in_degrees.size(), batch.input_nodes.size());
}

}  // namespace
}  // namespace hearth::sample
