#include "engine/model/cpu/adjacency.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/store/dataset.h"
#include "engine/store/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::IsEmpty;

// Destination 0 has sources 2 and 3, destination 1 has itself and 2,
// destination 2 has none.
sample::Block SmallBlock() {
  sample::Block block;
  block.num_sources = 4;
  block.num_destinations = 3;
  block.indptr = {0, 2, 4, 4};
  block.indices = {2, 3, 1, 2};
  return block;
}

TEST(AdjacencyTest, MeanWeighsNeighborsEqually) {
  const Adjacency mean = MeanAdjacency(SmallBlock());
  EXPECT_EQ(mean.num_sources, 4);
  EXPECT_EQ(mean.num_destinations, 3);
  EXPECT_THAT(mean.indptr, ElementsAre(0, 2, 4, 4));
  EXPECT_THAT(mean.indices, ElementsAre(2, 3, 1, 2));
  EXPECT_THAT(mean.weights, ElementsAre(0.5f, 0.5f, 0.5f, 0.5f));
}

TEST(AdjacencyTest, SymmetricScalesSampledNeighborsToAll) {
  sample::Block block = SmallBlock();
  block.indices = {2, 3, 0, 2};
  // Destination 0 has 6 neighbors, of which 2 were sampled.
  const Adjacency symmetric = SymmetricAdjacency(block, {{6, 2, 0, 9}});
  EXPECT_THAT(symmetric.indptr, ElementsAre(0, 3, 6, 7));
  EXPECT_THAT(symmetric.indices, ElementsAre(2, 3, 0, 0, 2, 1, 2));
  EXPECT_THAT(
      symmetric.weights,
      ElementsAre(FloatEq(3 / std::sqrt(7.0f * 1)),
                  FloatEq(3 / std::sqrt(7.0f * 10)), FloatEq(1 / 7.0f),
                  FloatEq(1 / std::sqrt(3.0f * 7)),
                  FloatEq(1 / std::sqrt(3.0f * 1)), FloatEq(1 / 3.0f), 1.0f));
}

// A graph of 1,000 nodes; node 7 has one self loop, node 9 has 300, and both
// have an edge from node 1.
class LoopedGraph final : public store::SingleTopology {
 public:
  LoopedGraph() : indptr_(1001), indices_(303, 9) {
    std::fill(indptr_.begin() + 8, indptr_.end(), 2);
    std::fill(indptr_.begin() + 10, indptr_.end(), 303);
    indices_[0] = 7;
    indices_[1] = indices_.back() = 1;
    SetView(
        {.indptr = indptr_, .indices = absl::Span<const int32_t>(indices_)});
  }

  absl::Status status() const override { return absl::OkStatus(); }

 private:
  std::vector<int64_t> indptr_;
  std::vector<int32_t> indices_;
};

TEST(AdjacencyTest, SymmetricTakesOneSelfLoopForThoseOfTheGraph) {
  const auto loops = store::SelfLoops::Count(LoopedGraph(), {});
  ASSERT_TRUE(loops.ok()) << loops.status();
  EXPECT_FALSE(loops->empty());
  EXPECT_EQ(loops->Of(1), 0);
  EXPECT_EQ(loops->Of(7), 1);
  EXPECT_EQ(loops->Of(9), 300);
  // All neighbors of nodes 7 and 9.
  sample::Block block = {.num_sources = 3, .num_destinations = 2};
  block.indptr = {0, 2, 303};
  block.indices.assign(303, 1);
  block.indices[0] = 0;
  block.indices[1] = block.indices.back() = 2;
  const Adjacency symmetric = SymmetricAdjacency(
      block,
      {.in_degrees = {2, 301, 0}, .nodes = {7, 9, 1}, .self_loops = &*loops});
  EXPECT_THAT(symmetric.indptr, ElementsAre(0, 2, 4));
  EXPECT_THAT(symmetric.indices, ElementsAre(2, 0, 2, 1));
  EXPECT_THAT(symmetric.weights,
              ElementsAre(FloatEq(1 / std::sqrt(2.0f)), 0.5f,
                          FloatEq(1 / std::sqrt(2.0f)), 0.5f));
}

TEST(AdjacencyTest, WeightsOfEdgesTakeThePlaceOfEqualOnes) {
  const sample::Block equal = {.num_sources = 4,
                               .num_destinations = 2,
                               .indptr = {0, 2, 3},
                               .indices = {2, 3, 0},
                               .weights = {0.5, 0.5, 1}};
  sample::Block plain = equal;
  plain.weights.clear();
  const std::vector<int64_t> in_degrees = {4, 3, 0, 5};
  const SourceDegrees degrees = {in_degrees};
  EXPECT_EQ(MeanAdjacency(equal).weights, MeanAdjacency(plain).weights);
  EXPECT_EQ(SymmetricAdjacency(equal, degrees).weights,
            SymmetricAdjacency(plain, degrees).weights);
  sample::Block weighted = plain;
  weighted.weights = {0.25, 0.75, 1};
  EXPECT_THAT(MeanAdjacency(weighted).weights, ElementsAre(0.25f, 0.75f, 1.0f));
  // Equal weights would give 4 / 2 each.
  const auto half = SymmetricAdjacency(plain, degrees).weights;
  const auto weights = SymmetricAdjacency(weighted, degrees).weights;
  EXPECT_FLOAT_EQ(weights[0], half[0] / 2);
  EXPECT_FLOAT_EQ(weights[1], half[1] * 1.5f);
  EXPECT_FLOAT_EQ(weights[2], half[2]);
}

TEST(AdjacencyTest, SumTakesTheNodeBesidesItsNeighbors) {
  const Adjacency sum = SumAdjacency(SmallBlock());
  EXPECT_THAT(sum.indptr, ElementsAre(0, 3, 6, 7));
  // Destination 1 is one of its own neighbors.
  EXPECT_THAT(sum.indices, ElementsAre(2, 3, 0, 1, 2, 1, 2));
  EXPECT_THAT(sum.weights, ElementsAre(1, 1, 1, 1, 1, 1, 1));
}

TEST(AdjacencyTest, SelfLoopIsThereOnceAndLast) {
  const Adjacency loops = SelfLoopAdjacency(SmallBlock());
  EXPECT_THAT(loops.indptr, ElementsAre(0, 3, 5, 6));
  EXPECT_THAT(loops.indices, ElementsAre(2, 3, 0, 2, 1, 2));
  EXPECT_THAT(loops.weights, IsEmpty());
}

TEST(AdjacencyTest, TransposeListsDestinationsBySource) {
  const TransposedAdjacency transposed = Transpose(MeanAdjacency(SmallBlock()));
  EXPECT_THAT(transposed.indptr, ElementsAre(0, 0, 1, 3, 4));
  EXPECT_THAT(transposed.indices, ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(transposed.edges, ElementsAre(2, 0, 3, 1));
}

TEST(BalancedRangesTest, WeighsEdgesAndRows) {
  // Row 0 has all the edges.
  EXPECT_THAT(BalancedRanges({0, 100, 100, 100, 100}, 2), ElementsAre(0, 1, 4));
  EXPECT_THAT(BalancedRanges({0, 1, 2, 3, 4}, 2), ElementsAre(0, 2, 4));
}

TEST(BalancedRangesTest, CoversAllRowsWhateverTheParts) {
  EXPECT_THAT(BalancedRanges({0, 5}, 3), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(BalancedRanges({0}, 2), ElementsAre(0, 0, 0));
  EXPECT_THAT(BalancedRanges({0, 2, 4}, 1), ElementsAre(0, 2));
}

}  // namespace
}  // namespace hearth::model
