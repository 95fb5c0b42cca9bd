#include "engine/sample/batch_shape.h"

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/sample/graph_fixture.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using Numbers = std::vector<int64_t>;

TEST(BatchShapeTest, IsReadOffABatch) {
  MiniBatch batch;
  batch.num_seeds = 2;
  batch.input_nodes = {4, 5, 6, 7, 8};
  batch.blocks = {{.num_sources = 5,
                   .num_destinations = 3,
                   .indptr = {0, 2, 3, 4},
                   .indices = {3, 4, 0, 1}},
                  {.num_sources = 3,
                   .num_destinations = 2,
                   .indptr = {0, 1, 1},
                   .indices = {2}}};
  const BatchShape shape = ShapeOf(batch);
  EXPECT_EQ(shape.nodes, (Numbers{5, 3, 2}));
  EXPECT_EQ(shape.edges, (Numbers{4, 1}));
  EXPECT_EQ(shape.num_inputs(), 5);
  EXPECT_EQ(shape.num_edges(), 5);
  // 5 ids and degrees, with doubled capacity; indptr of 4 and 3, 5 indices.
  EXPECT_EQ(shape.MemoryBytes(), 2 * 5 * 16 + 7 * 8 + 5 * 4);
  EXPECT_GT(shape.SamplerBytes(), 0);
}

// A batch whose edges have weights, drawn from the neighbors of all three
// destinations.
TEST(BatchShapeTest, OfOneDrawnByLayersHasTheEdgesThatWereListed) {
  MiniBatch batch;
  batch.num_seeds = 2;
  batch.input_nodes = {4, 5, 6};
  batch.in_degrees = {7, 2, 9};
  batch.blocks = {{.num_sources = 3,
                   .num_destinations = 2,
                   .indptr = {0, 1, 2},
                   .indices = {2, 2},
                   .weights = {1, 1}}};
  const BatchShape shape = ShapeOf(batch);
  EXPECT_EQ(shape.listed_edges, 9);
  BatchShape plain = shape;
  plain.listed_edges = 0;
  EXPECT_EQ(shape.MemoryBytes(), plain.MemoryBytes() + 2 * (4 + 2 * 4));
  EXPECT_GT(shape.SamplerBytes(), plain.SamplerBytes() + 9 * 8);
}

TEST(BatchShapeTest, CountsTheEndsOfEachEdgeType) {
  MiniBatch batch;
  batch.num_seeds = 2;
  batch.input_nodes = {4, 5, 6, 7};
  batch.in_degrees = {3, 2, 0, 0};
  batch.blocks = {{.num_sources = 4,
                   .num_destinations = 2,
                   .indptr = {0, 4, 6},
                   .indices = {2, 3, 3, 2, 2, 3},
                   .edge_types = {0, 0, 2, 2, 0, 2}}};
  // Type 0: sources 2 and 3; type 2: the same sources; both lead to both nodes.
  EXPECT_EQ(ShapeOf(batch).relations,
            (std::vector<RelationEnds>{{.sources = 4,
                                        .destinations = 4,
                                        .larger_ends = 4,
                                        .most_sources = 2,
                                        .most_destinations = 2}}));
  batch.blocks[0].indices = {1, 1, 1, 2, 2, 2};
  EXPECT_EQ(ShapeOf(batch).relations,
            (std::vector<RelationEnds>{{.sources = 4,
                                        .destinations = 4,
                                        .larger_ends = 4,
                                        .most_sources = 2,
                                        .most_destinations = 2}}));
  batch.blocks[0].indices = {1, 1, 1, 1, 1, 1};
  EXPECT_EQ(ShapeOf(batch).relations,
            (std::vector<RelationEnds>{{.sources = 2,
                                        .destinations = 4,
                                        .larger_ends = 4,
                                        .most_sources = 1,
                                        .most_destinations = 2}}));
  batch.blocks[0].edge_types.clear();
  EXPECT_TRUE(ShapeOf(batch).relations.empty());
  // One edge type among nodes of several types.
  batch.node_types = {0, 0, 1, 1};
  EXPECT_EQ(ShapeOf(batch).relations,
            (std::vector<RelationEnds>{{.sources = 1,
                                        .destinations = 2,
                                        .larger_ends = 2,
                                        .most_sources = 1,
                                        .most_destinations = 2}}));
}

BatchShape Bound(std::vector<int32_t> fanouts, int64_t num_seeds,
                 int64_t num_nodes, int64_t num_edges) {
  return ShapeBound({.fanouts = std::move(fanouts)}, num_seeds,
                    {.num_nodes = num_nodes, .num_edges = num_edges});
}

TEST(ShapeBoundTest, LayersAddSoManyNodes) {
  const BatchShape shape =
      ShapeBound({.fanouts = {-1, -1}, .layer_nodes = {20, 30}}, 7,
                 {.num_nodes = 1000, .num_edges = 900});
  EXPECT_EQ(shape.nodes, (Numbers{57, 27, 7}));
  EXPECT_EQ(shape.edges, (Numbers{900, 900}));
  EXPECT_EQ(shape.listed_edges, 900);
}

TEST(ShapeBoundTest, EachHopAddsTheNeighborsOfAllNodesSoFar) {
  EXPECT_EQ(Bound({}, 7, 100, 900).nodes, (Numbers{7}));
  const BatchShape shape = Bound({2, 3}, 7, 100, 900);
  EXPECT_EQ(shape.nodes, (Numbers{84, 21, 7}));
  EXPECT_EQ(shape.edges, (Numbers{63, 14}));
  EXPECT_EQ(Bound({0, 2}, 7, 100, 900).nodes, (Numbers{21, 7, 7}));
}

TEST(ShapeBoundTest, ANodeHasTheNeighborsOfAllItsEdgeTypes) {
  const NeighborSamplerOptions sampler = {.fanouts = {3, 2},
                                          .fanouts_of = {{}, {4, 1}, {9, -1}}};
  const auto bound = [&](std::vector<std::vector<size_t>> edge_types_into) {
    return ShapeBound(sampler, 10,
                      {.num_nodes = 1000,
                       .num_edges = 5000,
                       .edge_types_into = std::move(edge_types_into)});
  };
  // Types 0 and 1 lead to one node type, 3 to another.
  const BatchShape shape = bound({{0, 1}, {3}, {}});
  EXPECT_EQ(shape.edges, (Numbers{80 * 3, 10 * 7}));
  EXPECT_EQ(shape.nodes, (Numbers{80 + 240, 80, 10}));
  EXPECT_EQ(shape.types_per_node, 2);
  EXPECT_EQ(shape.relations[1], (RelationEnds{.sources = 70,
                                              .destinations = 20,
                                              .larger_ends = 70,
                                              .most_sources = 70,
                                              .most_destinations = 10}));
  // Type 2 has all neighbors in the second layer.
  EXPECT_EQ(bound({{0, 1}, {2}}).edges, (Numbers{5000, 90}));
  EXPECT_GT(
      shape.SamplerBytes(),
      (BatchShape{.nodes = shape.nodes, .edges = shape.edges}).SamplerBytes());
}

TEST(ShapeBoundTest, IsNeverAboveTheGraph) {
  EXPECT_EQ(Bound({2, 3}, 9, 100, 900).num_inputs(), 100);
  EXPECT_EQ(Bound({}, 200, 100, 900).num_inputs(), 100);
  const BatchShape all = Bound({-1}, 1, 100, 900);
  EXPECT_EQ(all.nodes, (Numbers{100, 1}));
  EXPECT_EQ(all.edges, (Numbers{900}));
  // A hop reaches no more nodes than it has edges.
  EXPECT_EQ(Bound({-1}, 1, 100, 5).nodes, (Numbers{6, 1}));
  EXPECT_EQ(
      Bound({INT32_MAX, INT32_MAX}, 1 << 20, int64_t{1} << 47, int64_t{1} << 50)
          .num_inputs(),
      int64_t{1} << 47);
}

TEST(ShapeBoundTest, WhereNodesDrawOnceALayerDrawsForThoseOfTheLast) {
  const auto bound = [](std::vector<int32_t> fanouts, int64_t num_nodes) {
    return ShapeBound({.fanouts = std::move(fanouts), .once = true}, 7,
                      {.num_nodes = num_nodes, .num_edges = 900});
  };
  const BatchShape shape = bound({2, 3}, 100);
  EXPECT_EQ(shape.edges, (Numbers{14 + 14 * 3, 14}));
  EXPECT_EQ(shape.nodes, (Numbers{7 + 14 + 42, 7 + 14, 7}));
  EXPECT_EQ(bound({0, 2}, 100).edges, (Numbers{0, 0}));
  EXPECT_EQ(bound({2, -1}, 100).edges, (Numbers{900, 14}));
  // Of 22 nodes, the second layer may meet more than the one that 21 leave.
  EXPECT_EQ(bound({2, 2, 1}, 22).edges, (Numbers{14 + 28 + 22, 14 + 28, 14}));
}

TEST(ShapeBoundTest, HoldsForWhatIsDrawn) {
  const Graph graph = RandomGraph(120);
  const GraphSize size = {.num_nodes = 120, .num_edges = graph.indptr.back()};
  for (const bool once : {false, true}) {
    for (const std::vector<int32_t>& fanouts :
         std::vector<std::vector<int32_t>>{
             {5}, {1, 2, 3}, {3, 0, 4}, {20, 20, 20}, {-1, 2}, {2, -1}}) {
      const NeighborSamplerOptions options = {.fanouts = fanouts, .once = once};
      const auto sampler = NewNeighborSampler(graph.topology(), options);
      for (const int64_t num_seeds : {1, 7, 60, 120}) {
        std::vector<store::NodeId> seeds(static_cast<size_t>(num_seeds));
        std::iota(seeds.begin(), seeds.end(), 0);
        const BatchShape bound = ShapeBound(options, num_seeds, size);
        BatchShape both = bound;
        for (uint64_t batch = 0; batch < 5; ++batch) {
          Enlarge(ShapeOf(*sampler->Sample({.batch = batch}, seeds)), both);
        }
        EXPECT_EQ(both, bound);
      }
    }
  }
}

TEST(EnlargeTest, TakesTheLargerOfEachLayer) {
  BatchShape shape;
  Enlarge({.nodes = {5, 3, 2}, .edges = {4, 1}}, shape);
  EXPECT_EQ(shape, (BatchShape{.nodes = {5, 3, 2}, .edges = {4, 1}}));
  Enlarge({.nodes = {4, 4, 2},
           .edges = {3, 9},
           .relations = {{.sources = 3}, {.destinations = 2}}},
          shape);
  EXPECT_EQ(shape,
            (BatchShape{.nodes = {5, 4, 2},
                        .edges = {4, 9},
                        .relations = {{.sources = 3}, {.destinations = 2}}}));
  shape.relations.clear();
  EXPECT_EQ(shape, (BatchShape{.nodes = {5, 4, 2}, .edges = {4, 9}}));
}

}  // namespace
}  // namespace hearth::sample
