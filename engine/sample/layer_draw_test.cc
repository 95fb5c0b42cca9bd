#include "engine/sample/layer_draw.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A block with all in-neighbors of three destinations: nodes 10, 11 and 12 at
// positions 0 to 2. Node 20 (position 3) feeds all of them, 21 and 22 feed 10
// alone, and 11 feeds 12.
struct Layer {
  std::vector<NodeId> nodes = {10, 11, 12, 20, 21, 22};
  Block block = {.num_sources = 6,
                 .num_destinations = 3,
                 .indptr = {0, 3, 4, 6},
                 .indices = {3, 4, 5, 3, 3, 1}};
};

// The sum of in_degree^-2 over the edges of each node, by hand.
const std::map<NodeId, double> kImportance = {
    {20, 1.0 / 9 + 1 + 1.0 / 4}, {21, 1.0 / 9}, {22, 1.0 / 9}, {11, 1.0 / 4}};

LayerDraw::Key KeyOf(uint64_t batch) {
  return {.data_seed = 3, .batch = {.epoch_key = 1, .batch = batch}};
}

// Nodes that have an edge.
std::set<NodeId> Drawn(const Layer& layer) {
  std::set<NodeId> drawn;
  for (const int32_t position : layer.block.indices) {
    drawn.insert(layer.nodes[position]);
  }
  return drawn;
}

TEST(LayerDrawTest, AllNeighborsAreKeptWhereThereIsRoom) {
  for (const int64_t count : {4, 100}) {
    Layer layer;
    LayerDraw().Thin(KeyOf(0), count, layer.nodes, layer.block);
    const Layer whole;
    EXPECT_EQ(layer.nodes, whole.nodes);
    EXPECT_EQ(layer.block.num_sources, 6);
    EXPECT_EQ(layer.block.indptr, whole.block.indptr);
    EXPECT_EQ(layer.block.indices, whole.block.indices);
    EXPECT_THAT(layer.block.weights, IsEmpty());
  }
}

TEST(LayerDrawTest, KeepsTheEdgesOfSoManyNodesAndWeighsThemInversely) {
  for (uint64_t batch = 0; batch < 200; ++batch) {
    Layer layer;
    LayerDraw().Thin(KeyOf(batch), 2, layer.nodes, layer.block);
    const std::set<NodeId> drawn = Drawn(layer);
    ASSERT_EQ(drawn.size(), 2u);
    // Destinations first, then those drawn that are none, as they stood.
    std::vector<NodeId> expected = {10, 11, 12};
    for (const NodeId node : {20, 21, 22}) {
      if (drawn.contains(node)) expected.push_back(node);
    }
    EXPECT_EQ(layer.nodes, expected);
    EXPECT_EQ(layer.block.num_sources, std::ssize(expected));
    const Layer whole;
    size_t edge = 0;
    for (int64_t row = 0; row < 3; ++row) {
      EXPECT_EQ(layer.block.indptr[row], static_cast<int64_t>(edge));
      double sum = 0;
      std::vector<NodeId> kept;
      for (int64_t old = whole.block.indptr[row];
           old < whole.block.indptr[row + 1]; ++old) {
        const NodeId node = whole.nodes[whole.block.indices[old]];
        if (!drawn.contains(node)) continue;
        kept.push_back(node);
        sum += 1 / kImportance.at(node);
      }
      for (const NodeId node : kept) {
        ASSERT_LT(edge, layer.block.indices.size());
        EXPECT_EQ(layer.nodes[layer.block.indices[edge]], node);
        EXPECT_FLOAT_EQ(layer.block.weights[edge],
                        static_cast<float>(1 / kImportance.at(node) / sum));
        ++edge;
      }
    }
    EXPECT_EQ(layer.block.indices.size(), edge);
    EXPECT_EQ(layer.block.weights.size(), edge);
  }
}

TEST(LayerDrawTest, NodesAreDrawnAsOftenAsTheyMatter) {
  constexpr int kDraws = 40000;
  std::map<NodeId, int> times;
  LayerDraw draw;
  for (uint64_t batch = 0; batch < kDraws; ++batch) {
    Layer layer;
    draw.Thin(KeyOf(batch), 1, layer.nodes, layer.block);
    for (const NodeId node : Drawn(layer)) ++times[node];
  }
  double total = 0;
  for (const auto& [node, importance] : kImportance) total += importance;
  for (const auto& [node, importance] : kImportance) {
    // Five standard deviations, at most.
    EXPECT_NEAR(times[node], kDraws * importance / total, 500) << node;
  }
}

TEST(LayerDrawTest, EveryCoordinateOfTheKeyCounts) {
  const auto drawn = [](const LayerDraw::Key& key) {
    // A star: node 0 has a thousand neighbors.
    std::vector<NodeId> nodes(1001);
    Block block = {
        .num_sources = 1001, .num_destinations = 1, .indptr = {0, 1000}};
    for (int32_t i = 0; i < 1001; ++i) {
      nodes[i] = i;
      if (i > 0) block.indices.push_back(i);
    }
    LayerDraw().Thin(key, 20, nodes, block);
    return nodes;
  };
  const LayerDraw::Key key = KeyOf(7);
  EXPECT_EQ(drawn(key), drawn(key));
  LayerDraw::Key other = key;
  other.data_seed = 4;
  EXPECT_NE(drawn(key), drawn(other));
  other = key;
  other.batch.epoch_key = 2;
  EXPECT_NE(drawn(key), drawn(other));
  other = key;
  other.layer = 1;
  EXPECT_NE(drawn(key), drawn(other));
  EXPECT_NE(drawn(key), drawn(KeyOf(8)));
}

TEST(LayerDrawTest, ALayerWithoutEdgesStaysEmpty) {
  std::vector<NodeId> nodes = {4, 5};
  Block block = {.num_sources = 2, .num_destinations = 2, .indptr = {0, 0, 0}};
  LayerDraw().Thin(KeyOf(0), 3, nodes, block);
  EXPECT_THAT(nodes, ElementsAre(4, 5));
  EXPECT_THAT(block.indptr, Each(0));
  EXPECT_THAT(block.weights, IsEmpty());
}

}  // namespace
}  // namespace hearth::sample
