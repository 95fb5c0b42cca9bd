#include "engine/sample/layered_sampler.h"

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "engine/base/random.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_draw.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::sample {

namespace {

RandomStream Stream(uint64_t seed) {
  return RandomStream(seed, RandomPurpose::kGenerator);
}

std::vector<int64_t> Draw(int64_t bound, int64_t count, uint64_t seed) {
  SubsetDrawer drawer;
  RandomStream random = Stream(seed);
  const auto drawn = drawer.Draw(bound, count, random);
  return {drawn.begin(), drawn.end()};
}

// Floyd's algorithm as published.
std::vector<int64_t> Reference(int64_t bound, int64_t count, uint64_t seed) {
  RandomStream random = Stream(seed);
  std::set<int64_t> chosen;
  for (int64_t last = bound - count; last < bound; ++last) {
    const auto drawn = static_cast<int64_t>(random.Below(last + 1));
    chosen.insert(chosen.count(drawn) > 0 ? last : drawn);
  }
  return {chosen.begin(), chosen.end()};
}

TEST(SubsetTest, IsFloydsSubsetInAscendingOrder) {
  SubsetDrawer drawer;  // One for all: nothing is left over from a draw.
  for (const int64_t count : {1, 2, 10, 63, 64, 65, 100, 200}) {
    for (const int64_t extra : {0, 1, 7, 100, 5000}) {
      RandomStream random = Stream(count);
      const auto drawn = drawer.Draw(count + extra, count, random);
      EXPECT_EQ(std::vector<int64_t>(drawn.begin(), drawn.end()),
                Reference(count + extra, count, count))
          << count << " of " << count + extra;
    }
  }
}

TEST(SubsetTest, OfNothing) { EXPECT_TRUE(Draw(5, 0, 1).empty()); }

TEST(SubsetTest, OfAll) {
  EXPECT_EQ(Draw(4, 4, 1), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(SubsetTest, EverySubsetIsEquallyLikely) {
  constexpr int kDraws = 20000;
  std::map<std::vector<int64_t>, double> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[Draw(6, 3, i)];
  ASSERT_EQ(counts.size(), 20u);
  const double expected = kDraws / 20.0;
  double chi_square = 0;
  for (const auto& [subset, count] : counts) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 43.8);  // 19 degrees of freedom, p = 0.001.
}

TEST(NodeTableTest, KeepsTheFirstPosition) {
  NodeTable table;
  EXPECT_EQ(table.FindOrAdd(7, 0), 0);
  EXPECT_EQ(table.FindOrAdd(9, 1), 1);
  EXPECT_EQ(table.FindOrAdd(7, 2), 0);
  EXPECT_EQ(table.FindOrAdd(9, 2), 1);
}

TEST(NodeTableTest, ClearForgets) {
  NodeTable table;
  table.FindOrAdd(7, 5);
  table.Clear();
  EXPECT_EQ(table.FindOrAdd(7, 0), 0);
}

// Runs, strides of powers of two and large ids, far beyond the initial size, in
// several generations.
TEST(NodeTableTest, AgreesWithAMap) {
  NodeTable table;
  for (const int64_t stride :
       {int64_t{1}, int64_t{1024}, int64_t{1} << 33, int64_t{12345677}}) {
    table.Clear();
    std::unordered_map<int64_t, int32_t> expected;
    for (int64_t i = 0; i < 30000; ++i) {
      const int64_t node = i * i % 20011 * stride;
      const auto next = static_cast<int32_t>(expected.size());
      ASSERT_EQ(table.FindOrAdd(node, next),
                expected.emplace(node, next).first->second);
    }
  }
}

using store::NodeId;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A block with all in-neighbors of three destinations: nodes 10, 11 and 12 at
// positions 0 to 2. Node 20 (position 3) feeds all of them, 21 and 22 feed only
// 10, and 11 feeds 12.
struct Layer {
  std::vector<NodeId> nodes = {10, 11, 12, 20, 21, 22};
  Block block = {.num_sources = 6,
                 .num_destinations = 3,
                 .indptr = {0, 3, 4, 6},
                 .indices = {3, 4, 5, 3, 3, 1}};
};

// Sum of in_degree^-2 over the edges of each node, by hand.
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
    // Destinations first, then drawn nodes in their former order.
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
    // At most five standard deviations.
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
