#include "engine/ingest/formats/csc_formats.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/ingest/formats/imported_graph_fixture.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/npy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ArrayConfTest : public testing::Test {
 protected:
  absl::StatusOr<ArrayConf> Read(const std::string& text) {
    EXPECT_TRUE(io::WriteFileAtomically(files_, path_, text).ok());
    return ArrayConf::Read(files_, path_);
  }

  /// Header of the array "x", whose fields stand beside num_nodes.
  absl::StatusOr<store::ArrayHeader> Header(const std::string& fields,
                                            const std::string& prefix = "") {
    const auto conf = Read("{\"num_nodes\": 3, " + fields + "}");
    EXPECT_TRUE(conf.ok()) << conf.status();
    if (!conf.ok()) return conf.status();
    return conf->Header("x", prefix);
  }

  void ExpectInvalid(const absl::Status& status, const std::string& problem) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("conf.json");
};

TEST_F(ArrayConfTest, ReadsNodesAndArrays) {
  const auto header =
      Header(R"("x_shape": [3, 128], "x_dtype": "float32", "other": {})");
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_THAT(header->shape, ElementsAre(3, 128));
  EXPECT_EQ(header->type,
            (store::ElementType{store::ElementType::Kind::kFloat, 4}));
  EXPECT_EQ(header->data_offset, 0u);
  EXPECT_FALSE(header->fortran_order);
  EXPECT_EQ(Read(R"({"num_nodes": 0})")->num_nodes(), 0);
  EXPECT_EQ(Read(R"({"num_nodes": 9223372036854775807})")->num_nodes(),
            INT64_MAX);
  EXPECT_EQ(*Read(R"({"num_nodes": 1, "y": 7})")->Number("y"), 7);
}

TEST_F(ArrayConfTest, TypesMayHaveAPrefix) {
  for (const char* type : {"torch.int64", "int64"}) {
    const auto header = Header(
        std::string(R"("x_shape": [], "x_dtype": ")") + type + "\"", "torch.");
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_THAT(header->shape, IsEmpty());
    EXPECT_EQ(header->type,
              (store::ElementType{store::ElementType::Kind::kInt, 8}));
  }
  ExpectInvalid(Header(R"("x_shape": [1], "x_dtype": "torch.int64")").status(),
                "x_dtype");
}

TEST_F(ArrayConfTest, FilesThatAreMissingOrNoJson) {
  ExpectInvalid(ArrayConf::Read(files_, path_).status(), "is missing");
  for (const char* text : {"", "{", "[]", "7", "{\"num_nodes\": 3,}",
                           "{\"num_nodes\": 3, \"num_nodes\": 3}"}) {
    ExpectInvalid(Read(text).status(), "");
  }
  const absl::Status status =
      Read("{\"num_nodes\": 3" + std::string(64 << 10, ' ') + "}").status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(ArrayConfTest, FieldsThatAreMissingOrWrong) {
  for (const char* nodes :
       {"{}", R"({"num_nodes": -1})", R"({"num_nodes": "3"})",
        R"({"num_nodes": 1.5})", R"({"num_nodes": 9223372036854775808})"}) {
    ExpectInvalid(Read(nodes).status(), "num_nodes");
  }
  ExpectInvalid(Header(R"("x_dtype": "float32")").status(), "x_shape");
  ExpectInvalid(Header(R"("x_shape": [2, -1], "x_dtype": "int8")").status(),
                "x_shape");
  ExpectInvalid(Header(R"("x_shape": 2, "x_dtype": "int8")").status(),
                "x_shape");
  ExpectInvalid(Header(R"("x_shape": [2])").status(), "x_dtype");
  for (const char* type : {"\"\"", "\"float31\"", "\"object\"", "5"}) {
    ExpectInvalid(
        Header(std::string(R"("x_shape": [2], "x_dtype": )") + type).status(),
        "x_dtype");
  }
}

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
  // Ginex's own file is preferred.
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
