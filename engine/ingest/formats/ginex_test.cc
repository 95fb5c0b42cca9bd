#include "engine/ingest/formats/ginex.h"

#include <string>

#include "engine/ingest/formats/imported_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::Contains;
using testing::HasSubstr;

void ExpectFixture(const ImportedGraph& graph, const std::string& expected) {
  EXPECT_EQ(Sorted(graph.edges.at("edge")),
            ExpectedEdges(expected + "/edges.npy"));
  const ImportedNodes& nodes = graph.nodes.at("node");
  EXPECT_EQ(nodes.num_nodes, 34);
  EXPECT_EQ(nodes.num_classes, 4);
  EXPECT_EQ(nodes.feature_type, "float32");
  EXPECT_EQ(nodes.features, ExpectedFloats(expected + "/features.npy"));
  EXPECT_EQ(nodes.labels, ExpectedInts(expected + "/labels.npy"));
  EXPECT_EQ(nodes.split[0], ExpectedInts(expected + "/train.npy"));
  EXPECT_EQ(nodes.split[1], ExpectedInts(expected + "/valid.npy"));
  EXPECT_EQ(nodes.split[2], ExpectedInts(expected + "/test.npy"));
}

class GinexFormatTest : public testing::Test {
 protected:
  void ExpectRefused(absl::StatusCode code, const std::string& message) {
    const absl::Status status = folder_.Import({.format = "ginex"}).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  void ExpectInvalid(const std::string& message) {
    ExpectRefused(absl::StatusCode::kInvalidArgument, message);
  }

  ImportFolder folder_{"ginex/toy-ginex"};
};

TEST_F(GinexFormatTest, IsReadAsGinexReadsIt) {
  for (const bool in_place : {false, true}) {
    const auto graph = folder_.Import({.in_place = in_place});
    ASSERT_TRUE(graph.ok()) << graph.status();
    ExpectFixture(*graph, "ginex/expected");
    EXPECT_EQ(graph->manifest.node_types[0].features.in_place, in_place);
    EXPECT_THAT(graph->manifest.transforms,
                Contains("taken for ginex: it has indptr.dat and indices.dat"));
  }
}

TEST_F(GinexFormatTest, GnnDrivesNamesAreReadToo) {
  const ImportFolder folder("gnndrive/mag240m-ginex");
  const auto graph = folder.Import();
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectFixture(*graph, "gnndrive/expected");
  EXPECT_THAT(graph->manifest.transforms,
              Contains("split_idx.pth: test-dev taken for test"));
}

TEST_F(GinexFormatTest, OfSeveralDimensionsOneMustBeKept) {
  const ImportFolder folder("gnndrive/mag240m-ginex");
  folder.Write("conf-16.json", folder.Read("conf-8.json"));
  const absl::Status status = folder.Import().status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has conf-16.json and conf-8.json; which"));
  // Ginex's own goes before.
  folder.Write("conf.json", folder.Read("conf-8.json"));
  folder.Write("features.dat", folder.Read("features-8.dat"));
  const auto graph = folder.Import();
  ASSERT_TRUE(graph.ok()) << graph.status();
  ExpectFixture(*graph, "gnndrive/expected");
}

TEST_F(GinexFormatTest, AnNpyHeaderIsNotTakenForFeatures) {
  folder_.Write("features.dat",
                "\x93NUMPY" + folder_.Read("features.dat").substr(6));
  ExpectInvalid("features.dat: begins with the header of an .npy file");
}

TEST_F(GinexFormatTest, EveryFileIsNeeded) {
  for (const std::string name : {"features.dat", "indices.dat", "indptr.dat",
                                 "labels.dat", "split_idx.pth"}) {
    const std::string bytes = folder_.Read(name);
    folder_.Remove(name);
    ExpectInvalid(name + ": is missing");
    folder_.Write(name, bytes);
  }
  folder_.Remove("conf.json");
  ExpectInvalid("has neither conf.json nor a conf-DIM.json");
}

TEST_F(GinexFormatTest, FilesOfAnotherSizeAreRefused) {
  const std::string features = folder_.Read("features.dat");
  folder_.Write("features.dat", features.substr(0, features.size() - 1));
  ExpectRefused(absl::StatusCode::kDataLoss, "features.dat: has 1087 bytes");
  folder_.Write("features.dat", features + "x");
  ExpectInvalid("features.dat: has 1089 bytes");
}

TEST_F(GinexFormatTest, AnIdOutOfRangeIsRefused) {
  std::string indices = folder_.Read("indices.dat");
  indices[8] = 34;
  folder_.Write("indices.dat", indices);
  ExpectInvalid("indices.dat: [1] is 34; node ids are 0 .. 33");
}

TEST_F(GinexFormatTest, ConfIsReadStrictly) {
  const std::string good = folder_.Read("conf.json");
  const auto spoil = [&](const std::string& from, const std::string& to) {
    folder_.Write("conf.json", good);
    folder_.Replace("conf.json", from, to);
  };
  spoil("\"num_nodes\": 34, ", "");
  ExpectInvalid("conf.json.num_nodes is missing");
  spoil("\"num_nodes\": 34, ", "\"num_nodes\": -1, ");
  ExpectInvalid("conf.json.num_nodes is not an integer in 0 ..");
  spoil("\"features_dtype\": \"float32\"", "\"features_dtype\": \"complex\"");
  ExpectInvalid("features_dtype: \"complex\" is no type of elements");
  spoil("\"features_shape\": [34, 8]", "\"features_shape\": [34, -8]");
  ExpectInvalid("features_shape holds something else than integers");
  spoil("\"features_shape\": [34, 8]",
        "\"features_shape\": [4611686018427387904, 8]");
  ExpectRefused(absl::StatusCode::kDataLoss, "features.dat: has 1088 bytes");
  spoil("\"num_nodes\": 34", "\"num_nodes\": 33");
  ExpectInvalid("features.dat: has 34 rows; there are 33 nodes");
  folder_.Write("conf.json", "{");
  ExpectInvalid("conf.json: is not JSON");
  folder_.Write("conf.json", std::string(70'000, ' '));
  ExpectRefused(absl::StatusCode::kResourceExhausted, "conf.json");
}

TEST_F(GinexFormatTest, ATruncatedSplitIsRefused) {
  folder_.Write("split_idx.pth", folder_.Read("split_idx.pth").substr(0, 900));
  const absl::Status status = folder_.Import().status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("split_idx.pth"));
}

TEST_F(GinexFormatTest, ASplitThatIsNoDictionaryIsRefused) {
  folder_.Write("split_idx.pth", folder_.Read("nc_score.pth"));
  ExpectInvalid("split_idx.pth: train: is missing");
}

}  // namespace
}  // namespace hearth::ingest
