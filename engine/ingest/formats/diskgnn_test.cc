#include "engine/ingest/formats/diskgnn.h"

#include <string>

#include "engine/ingest/formats/imported_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

class DiskGnnFormatTest : public testing::Test {
 protected:
  void ExpectRefused(absl::StatusCode code, const std::string& message) {
    const absl::Status status = folder_.Import({.format = "diskgnn"}).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  void ExpectInvalid(const std::string& message) {
    ExpectRefused(absl::StatusCode::kInvalidArgument, message);
  }

  ImportFolder folder_{"diskgnn/toy-offgs"};
};

TEST_F(DiskGnnFormatTest, IsReadAsDiskGnnReadsIt) {
  for (const std::string fixture : {"diskgnn", "diskgnn_int64"}) {
    const ImportFolder folder(fixture + "/toy-offgs");
    for (const bool in_place : {false, true}) {
      const auto graph = folder.Import({.in_place = in_place});
      ASSERT_TRUE(graph.ok()) << graph.status();
      const std::string expected = fixture + "/expected/";
      EXPECT_EQ(Sorted(graph->edges.at("edge")),
                ExpectedEdges(expected + "edges.npy"));
      const ImportedNodes& nodes = graph->nodes.at("node");
      EXPECT_EQ(nodes.num_nodes, 32);
      EXPECT_EQ(nodes.num_classes, 5);
      EXPECT_EQ(nodes.feature_type,
                fixture == "diskgnn" ? "float32" : "float16");
      EXPECT_EQ(nodes.features, ExpectedFloats(expected + "features.npy"));
      EXPECT_EQ(nodes.labels, ExpectedInts(expected + "labels.npy"));
      EXPECT_EQ(nodes.split[0], ExpectedInts(expected + "train.npy"));
      EXPECT_EQ(nodes.split[1], ExpectedInts(expected + "valid.npy"));
      EXPECT_EQ(nodes.split[2], ExpectedInts(expected + "test.npy"));
      EXPECT_EQ(graph->manifest.node_types[0].features.in_place, in_place);
    }
  }
}

TEST_F(DiskGnnFormatTest, WithoutAGraphTheSourceOfTheFolderIsWanted) {
  folder_.Remove("graph.pth");
  ExpectInvalid("graph.pth: is missing; of a graph of several types");
}

TEST_F(DiskGnnFormatTest, EveryFileIsNeeded) {
  for (const std::string name :
       {"conf.json", "features.bin", "labels.pth", "split_idx.pth"}) {
    const std::string bytes = folder_.Read(name);
    folder_.Remove(name);
    ExpectInvalid(name + ": is missing");
    folder_.Write(name, bytes);
  }
}

TEST_F(DiskGnnFormatTest, AGraphThatIsNoneOfGraphBoltsIsRefused) {
  folder_.Write("graph.pth", folder_.Read("labels.pth"));
  ExpectInvalid("graph.pth: holds no FusedCSCSamplingGraph");
}

TEST_F(DiskGnnFormatTest, AHeterographIsRefused) {
  const ImportFolder graphbolt("graphbolt_heterogeneous/dataset");
  folder_.Write("graph.pth",
                graphbolt.Read("preprocessed/fused_csc_sampling_graph.pt"));
  ExpectInvalid("graph.pth: has several types");
}

TEST_F(DiskGnnFormatTest, TruncatedFilesAreRefused) {
  for (const std::string name : {"graph.pth", "labels.pth", "features.bin"}) {
    const std::string bytes = folder_.Read(name);
    folder_.Write(name, bytes.substr(0, bytes.size() / 2));
    const absl::Status status = folder_.Import().status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    folder_.Write(name, bytes);
  }
}

TEST_F(DiskGnnFormatTest, SizesMustFitEachOther) {
  folder_.Replace("conf.json", "\"features_shape\": [32, 9]",
                  "\"features_shape\": [32, 8]");
  ExpectInvalid("features.bin: has 1152 bytes");
  folder_.Replace("conf.json", "\"features_shape\": [32, 8]",
                  "\"features_shape\": [16, 18]");
  ExpectInvalid("features.bin: has 16 rows; there are 32 nodes");
}

TEST_F(DiskGnnFormatTest, TheNumbersOfAHeterographAreNotTaken) {
  folder_.Replace("conf.json", "\"num_nodes\": 32",
                  "\"num_nodes\": {\"paper\": 32}");
  ExpectInvalid("conf.json.num_nodes is not an integer");
}

}  // namespace
}  // namespace hearth::ingest
