#include "engine/sample/batch_shape.h"

#include <cstdint>
#include <vector>

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
  // 5 ids and degrees, indptr of 4 and 3, 5 indices; with room to grow.
  EXPECT_EQ(shape.MemoryBytes(), 2 * (5 * 16 + 7 * 8 + 5 * 4));
  EXPECT_GT(shape.SamplerBytes(), 0);
}

TEST(ShapeBoundTest, EachHopAddsTheNeighborsOfAllNodesSoFar) {
  EXPECT_EQ(ShapeBound({}, 7, 100, 900).nodes, (Numbers{7}));
  const BatchShape shape = ShapeBound({2, 3}, 7, 100, 900);
  EXPECT_EQ(shape.nodes, (Numbers{84, 21, 7}));
  EXPECT_EQ(shape.edges, (Numbers{63, 14}));
  EXPECT_EQ(ShapeBound({0, 2}, 7, 100, 900).nodes, (Numbers{21, 7, 7}));
}

TEST(ShapeBoundTest, IsNeverAboveTheGraph) {
  EXPECT_EQ(ShapeBound({2, 3}, 9, 100, 900).num_inputs(), 100);
  EXPECT_EQ(ShapeBound({}, 200, 100, 900).num_inputs(), 100);
  const BatchShape all = ShapeBound({-1}, 1, 100, 900);
  EXPECT_EQ(all.nodes, (Numbers{100, 1}));
  EXPECT_EQ(all.edges, (Numbers{900}));
  // A hop reaches no more nodes than it has edges.
  EXPECT_EQ(ShapeBound({-1}, 1, 100, 5).nodes, (Numbers{6, 1}));
  EXPECT_EQ(ShapeBound({INT32_MAX, INT32_MAX}, 1 << 20, int64_t{1} << 47,
                       int64_t{1} << 50)
                .num_inputs(),
            int64_t{1} << 47);
}

TEST(EnlargeTest, TakesTheLargerOfEachLayer) {
  BatchShape shape;
  Enlarge({.nodes = {5, 3, 2}, .edges = {4, 1}}, shape);
  EXPECT_EQ(shape, (BatchShape{.nodes = {5, 3, 2}, .edges = {4, 1}}));
  Enlarge({.nodes = {4, 4, 2}, .edges = {3, 9}}, shape);
  EXPECT_EQ(shape, (BatchShape{.nodes = {5, 4, 2}, .edges = {4, 9}}));
}

}  // namespace
}  // namespace hearth::sample
