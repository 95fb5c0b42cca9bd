#include "engine/model/cpu/relations.h"

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::model {

namespace {

using ::testing::ElementsAre;

// Edge types a -> b -> c -> c, and d -> c.
train::ModelShape Chain(int64_t layers) {
  return {.feature_dim = 4,
          .label_width = 2,
          .num_layers = layers,
          .node_types = {{.name = "a", .feature_dim = 4},
                         {.name = "b", .feature_dim = 4},
                         {.name = "c", .feature_dim = 4},
                         {.name = "d.d", .feature_dim = 2}},
          .edge_types = {{.name = "to", .source = 0, .destination = 1},
                         {.name = "b__leads__c", .source = 1, .destination = 2},
                         {.name = "loop", .source = 2, .destination = 2},
                         {.name = "b__to", .source = 3, .destination = 2}},
          .target_type = 2};
}

TEST(RelationSchemaTest, KeysAreThoseOfPyG) {
  const RelationSchema schema = SchemaOf(Chain(1));
  EXPECT_EQ(schema.Key(0), "<a___to___b>");
  // A relation's own name excludes the names of its ends.
  EXPECT_EQ(schema.Key(1), "<b___leads___c>");
  EXPECT_EQ(schema.Key(3), "<d#d___b__to___c>");
  EXPECT_EQ(schema.NodeKey(3), "d#d");
}

TEST(RelationSchemaTest, KeysDiffer) {
  train::ModelShape shape = Chain(1);
  shape.edge_types.push_back({.name = "leads", .source = 1, .destination = 2});
  const RelationSchema schema = SchemaOf(shape);
  EXPECT_EQ(schema.Key(1), "<b___b__leads__c___c>");
  EXPECT_EQ(schema.Key(4), "<b___leads___c>");
}

TEST(RelationSchemaTest, KeysThatDoNotDifferAreRefused) {
  train::ModelShape shape = Chain(1);
  EXPECT_EQ(CheckKeysDiffer(shape), absl::OkStatus());
  shape.edge_types.push_back({.name = "to", .source = 0, .destination = 1});
  absl::Status status = CheckKeysDiffer(shape);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("<a___to___b>"), std::string::npos) << status;
  shape = Chain(1);
  shape.node_types[0].name = "d#d";
  status = CheckKeysDiffer(shape);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("d#d"), std::string::npos) << status;
}

TEST(RelationSchemaTest, AGraphWithoutTypesHasOneOfEach) {
  const RelationSchema schema =
      SchemaOf({.feature_dim = 7, .label_width = 2, .num_layers = 3});
  EXPECT_EQ(schema.Key(0), "<node___edge___node>");
  EXPECT_TRUE(schema.HasEqualWidths(7));
  EXPECT_THAT(schema.LiveRelations(2), ElementsAre(0));
}

TEST(RelationSchemaTest, WidthsAreComparedWithTheInputs) {
  EXPECT_FALSE(SchemaOf(Chain(1)).HasEqualWidths(4));
  train::ModelShape shape = Chain(1);
  shape.node_types[3].feature_dim = 4;
  EXPECT_TRUE(SchemaOf(shape).HasEqualWidths(4));
  EXPECT_FALSE(SchemaOf(shape).HasEqualWidths(8));
}

TEST(RelationSchemaTest, RelationsLiveWhileBothEndsDo) {
  const RelationSchema schema = SchemaOf(Chain(1));
  EXPECT_THAT(schema.LiveRelations(0), ElementsAre(0, 1, 2, 3));
  // a and d have no in-edges.
  EXPECT_THAT(schema.LiveRelations(1), ElementsAre(1, 2));
  // b had in-edges from a only.
  EXPECT_THAT(schema.LiveRelations(2), ElementsAre(2));
  EXPECT_THAT(schema.LiveRelations(9), ElementsAre(2));
}

TEST(RelationSchemaTest, TheTargetMustLiveInAllLayers) {
  EXPECT_EQ(CheckTargetIsLive(Chain(9)), absl::OkStatus());
  train::ModelShape shape = Chain(1);
  shape.target_type = 1;
  EXPECT_EQ(CheckTargetIsLive(shape), absl::OkStatus());
  shape.num_layers = 2;
  const absl::Status status = CheckTargetIsLive(shape);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "no edge type leads to b "));
  shape.target_type = 3;
  EXPECT_EQ(CheckTargetIsLive(shape),
            absl::InvalidArgumentError("no edge type leads to d.d"));
  EXPECT_THAT(SchemaOf(shape).LiveRelations(64), ElementsAre(2));
}

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
