#include "engine/model/relation_blocks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Destination 0 has edges of types 0, 0 and 2, destination 1 none, destination
// 2 two of type 2.
sample::Block Block() {
  return {.num_sources = 6,
          .num_destinations = 3,
          .indptr = {0, 3, 3, 5},
          .indices = {5, 2, 4, 4, 1},
          .edge_types = {0, 0, 2, 2, 2}};
}

TEST(SplitByRelationTest, NumbersTheNodesOfEachRelation) {
  const auto relations = SplitByRelation(Block(), 4);
  ASSERT_EQ(relations.size(), 4u);
  EXPECT_THAT(*relations[0].sources, ElementsAre(5, 2));
  EXPECT_THAT(*relations[0].destinations, ElementsAre(0));
  EXPECT_THAT(relations[0].edges.indptr, ElementsAre(0, 2));
  EXPECT_THAT(relations[0].edges.indices, ElementsAre(0, 1));
  EXPECT_THAT(*relations[2].sources, ElementsAre(4, 1));
  EXPECT_THAT(*relations[2].destinations, ElementsAre(0, 2));
  EXPECT_THAT(relations[2].edges.indptr, ElementsAre(0, 1, 3));
  EXPECT_THAT(relations[2].edges.indices, ElementsAre(0, 0, 1));
  EXPECT_EQ(relations[2].edges.num_sources, 2);
  EXPECT_EQ(relations[2].edges.num_destinations, 2);
  EXPECT_THAT(relations[2].edges.weights, IsEmpty());
}

TEST(SplitByRelationTest, RelationsWithoutEdgesAreEmpty) {
  const auto relations = SplitByRelation(Block(), 4);
  for (const size_t type : {1, 3}) {
    EXPECT_THAT(*relations[type].sources, IsEmpty());
    EXPECT_THAT(*relations[type].destinations, IsEmpty());
    EXPECT_THAT(relations[type].edges.indptr, ElementsAre(0));
    EXPECT_EQ(relations[type].edges.num_edges(), 0);
  }
}

TEST(SplitByRelationTest, EdgesWithoutTypesAreOfTypeZero) {
  sample::Block block = Block();
  block.edge_types.clear();
  const auto relations = SplitByRelation(block, 1);
  EXPECT_THAT(*relations[0].sources, ElementsAre(5, 2, 4, 1));
  EXPECT_THAT(*relations[0].destinations, ElementsAre(0, 2));
  EXPECT_THAT(relations[0].edges.indptr, ElementsAre(0, 3, 5));
}

TEST(SplitByRelationTest, SourcesMayKeepTheirNumbers) {
  const auto relations = SplitByRelation(Block(), 3);
  const Adjacency edges = WithSourcesOfBlock(relations[2], 6);
  EXPECT_EQ(edges.num_sources, 6);
  EXPECT_THAT(edges.indices, ElementsAre(4, 4, 1));
  EXPECT_THAT(edges.indptr, ElementsAre(0, 1, 3));
}

TEST(RowsByTypeTest, ListsRowsInOrder) {
  const auto rows = RowsByType({1, 0, 1, 2, 0}, 4, 4);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_THAT(*rows[0], ElementsAre(1));
  EXPECT_THAT(*rows[1], ElementsAre(0, 2));
  EXPECT_THAT(*rows[2], ElementsAre(3));
  EXPECT_THAT(*rows[3], IsEmpty());
}

TEST(RowsByTypeTest, RowsWithoutTypesAreOfTypeZero) {
  const auto rows = RowsByType({}, 3, 2);
  EXPECT_THAT(*rows[0], ElementsAre(0, 1, 2));
  EXPECT_THAT(*rows[1], IsEmpty());
}

}  // namespace
}  // namespace hearth::model
