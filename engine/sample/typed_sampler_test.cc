#include "engine/sample/typed_sampler.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/sample/addressable_sampler.h"
#include "engine/sample/example_graph.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/typed_example.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;
using store::Relation;
using ::testing::HasSubstr;

std::vector<NodeId> Seeds(NodeId first, int64_t count) {
  std::vector<NodeId> seeds(static_cast<size_t>(count));
  std::iota(seeds.begin(), seeds.end(), first);
  return seeds;
}

class TypedSamplerTest : public testing::Test {
 protected:
  MiniBatch Sample(const NeighborSamplerOptions& options,
                   const std::vector<NodeId>& seeds) {
    relations_ = example_.Relations();
    return *NewTypedSampler(relations_, nodes_, options)
                ->Sample({.epoch_key = 2, .batch = 7}, seeds);
  }

  TypedExample example_;
  const store::NodeSpace& nodes_ = example_.nodes;
  std::array<TypedExample::Edges, 5>& edges_ = example_.edges;
  std::vector<Relation> relations_;
};

TEST_F(TypedSamplerTest, OneTypeOfEachIsSampledAsEver) {
  const Graph graph = RandomGraph(2000);
  const std::vector<Relation> relations = {
      {.topology = graph.topology(), .num_sources = 2000}};
  const NeighborSamplerOptions options = {.fanouts = {7, 3, -1},
                                          .data_seed = 4};
  const BatchKey key = {.epoch_key = 1, .batch = 9};
  const std::vector<NodeId> seeds = Seeds(100, 60);
  const MiniBatch expected =
      *NewNeighborSampler(graph.topology(), options)->Sample(key, seeds);
  const MiniBatch typed =
      *NewTypedSampler(relations, store::NodeSpace({2000}), options)
           ->Sample(key, seeds);
  ExpectEqual(expected, typed);
  EXPECT_EQ(typed.node_types,
            std::vector<store::TypeId>(typed.input_nodes.size(), 0));
}

// Every edge is one of its type, each type has as many of a destination as its
// fan-out lets, and nodes are numbered as they are met.
TEST_F(TypedSamplerTest, SamplesEachEdgeTypeByItsFanout) {
  const NeighborSamplerOptions options = {
      .fanouts = {4, 2},
      .data_seed = 4,
      .fanouts_of = {{}, {-1, 1}, {}, {0, 3}, {}}};
  const MiniBatch batch = Sample(options, Seeds(0, 50));
  ASSERT_EQ(batch.blocks.size(), 2u);
  ASSERT_EQ(batch.node_types.size(), batch.input_nodes.size());
  for (size_t i = 0; i < batch.input_nodes.size(); ++i) {
    EXPECT_EQ(batch.node_types[i], nodes_.TypeOf(batch.input_nodes[i]));
  }
  for (size_t hop = 0; hop < 2; ++hop) {
    const Block& block = batch.blocks[1 - hop];
    ASSERT_EQ(block.edge_types.size(), block.indices.size());
    int32_t met = static_cast<int32_t>(block.num_destinations);
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      std::array<int64_t, 5> drawn = {};
      int64_t at = block.indptr[row];
      for (; at < block.indptr[row + 1]; ++at) {
        const store::TypeId type = block.edge_types[at];
        ++drawn[type];
        if (at > block.indptr[row]) {
          EXPECT_LE(block.edge_types[at - 1], type);
        }
        EXPECT_LE(block.indices[at], met);
        met = std::max(met, block.indices[at] + 1);
        const TypedExample::Edges& edges = edges_[type];
        const NodeId node =
            batch.input_nodes[row] - nodes_.First(edges.destination);
        const NodeId neighbor =
            batch.input_nodes[block.indices[at]] - nodes_.First(edges.source);
        const auto begin = edges.graph.indices.begin();
        EXPECT_NE(std::find(begin + edges.graph.indptr[node],
                            begin + edges.graph.indptr[node + 1], neighbor),
                  begin + edges.graph.indptr[node + 1]);
      }
      int64_t in_degree = 0;
      for (size_t type = 0; type < edges_.size(); ++type) {
        const TypedExample::Edges& edges = edges_[type];
        if (batch.node_types[row] != edges.destination) {
          EXPECT_EQ(drawn[type], 0);
          continue;
        }
        const NodeId node =
            batch.input_nodes[row] - nodes_.First(edges.destination);
        const int64_t degree =
            edges.graph.indptr[node + 1] - edges.graph.indptr[node];
        const int32_t fanout = options.Fanout(hop, type);
        EXPECT_EQ(drawn[type],
                  fanout < 0 ? degree : std::min<int64_t>(degree, fanout));
        in_degree += degree;
      }
      EXPECT_EQ(batch.in_degrees[row], in_degree);
    }
    EXPECT_EQ(met, block.num_sources);
  }
}

TEST_F(TypedSamplerTest, EdgeTypesOfANodeDrawIndependently) {
  // Two types with the same neighbors.
  edges_[1] = {edges_[0].graph, 0, 0};
  const MiniBatch batch =
      Sample({.fanouts = {3}, .data_seed = 4}, Seeds(0, 300));
  const Block& block = batch.blocks[0];
  int64_t differ = 0;
  for (NodeId hub = 0; hub < 300; hub += 11) {
    const auto begin = block.indices.begin() + block.indptr[hub];
    differ += !std::equal(begin, begin + 3, begin + 3);
  }
  EXPECT_GT(differ, 20);
}

TEST_F(TypedSamplerTest, TwoStepsGiveTheSameBatch) {
  const NeighborSamplerOptions options = {.fanouts = {4, 2, 3}, .data_seed = 4};
  const std::vector<NodeId> seeds = Seeds(10, 30);
  const MiniBatch expected = Sample(options, seeds);
  const auto sampler = NewTypedSampler(relations_, nodes_, options);
  MiniBatch batch = *sampler->SampleTop({.epoch_key = 2, .batch = 7}, seeds);
  ASSERT_EQ(batch.top->node_types.size(), batch.top->nodes.size());
  batch.top->computed.resize(batch.top->nodes.size());
  std::iota(batch.top->computed.begin(), batch.top->computed.end(), 0);
  ASSERT_TRUE(sampler->SampleRest(batch).ok());
  ExpectEqual(expected, batch);
  EXPECT_EQ(expected.node_types, batch.node_types);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(expected.blocks[i].edge_types, batch.blocks[i].edge_types);
  }
}

TEST_F(TypedSamplerTest, DamagedArraysAreDataLoss) {
  const auto sample = [&] {
    relations_ = example_.Relations();
    return NewTypedSampler(relations_, nodes_, {.fanouts = {-1, -1}})
        ->Sample({}, Seeds(0, 300))
        .status();
  };
  EXPECT_TRUE(sample().ok());
  for (const int32_t wrong : {-1, 20}) {
    std::vector<int64_t>& indices = edges_[3].graph.wide_indices;
    const int64_t right = std::exchange(indices[5], wrong);
    const absl::Status status = sample();
    EXPECT_TRUE(absl::IsDataLoss(status)) << wrong;
    EXPECT_THAT(status.message(), HasSubstr("edge type \"e3\"")) << wrong;
    indices[5] = right;
  }
  edges_[2].graph.indptr[5] = 1 << 20;
  const absl::Status status = sample();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(status.message(), HasSubstr("edge type \"e2\""));
}

}  // namespace
}  // namespace hearth::sample
