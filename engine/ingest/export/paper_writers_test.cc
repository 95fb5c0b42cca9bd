#include "engine/ingest/export/paper_writers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/generate/generated_graph.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

constexpr int64_t kNodes = 3000;
constexpr int64_t kEdges = 5000;

class PaperWritersTest : public testing::Test {
 protected:
  PaperWritersTest()
      : context_(files_, 1 << 20, scratch_.Path("work/scratch"), nullptr, {}) {}

  SourceGraph Generated(int64_t num_classes = 16, int64_t dim = 3) {
    GenerateOptions options;
    options.num_nodes = kNodes;
    options.num_edges = kEdges;
    options.feature_dim = dim;
    options.num_classes = num_classes;
    return OpenGenerated(context_, options).value();
  }

  /// Adds authors without papers, and institutions.
  SourceGraph WithAuthors() {
    SourceGraph graph = Generated();
    graph.nodes[0].type = "paper";
    graph.edges[0].type = "paper:cites:paper";
    graph.edges[0].source_type = "paper";
    graph.edges[0].destination_type = "paper";
    for (const char* type : {"author", "institution"}) {
      graph.nodes.push_back({});
      graph.nodes.back().type = type;
      graph.nodes.back().num_nodes = kNodes;
    }
    SourceGraph other = Generated();
    graph.edges.push_back(std::move(other.edges[0]));
    graph.edges[1].type = "author:affiliated_with:institution";
    graph.edges[1].source_type = "author";
    graph.edges[1].destination_type = "institution";
    return graph;
  }

  std::unique_ptr<ArrayReader> Matrix(absl::Span<const float> values,
                                      int64_t columns) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    const int64_t rows = static_cast<int64_t>(values.size()) / columns;
    return ArrayReader::ReadRaw(io::NewMemoryFile(std::move(bytes), "features"),
                                {.type = {}, .shape = {rows, columns}})
        .value();
  }

  bool IsThere(const std::string& name) {
    return files_.Stat(scratch_.Path(name)).ok();
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  ImportContext context_;
};

TEST_F(PaperWritersTest, Mag240mKeepsItsOwnTypes) {
  SourceGraph graph = WithAuthors();
  const absl::Status status =
      WriteMag240m(context_, graph, scratch_.Path("mag"));
  ASSERT_TRUE(status.ok()) << status;
  const auto back = OpenFormat(context_, "mag240m", scratch_.Path("mag"));
  ASSERT_TRUE(back.ok()) << back.status();
  for (const SourceNodes& nodes : back->nodes) {
    EXPECT_EQ(nodes.num_nodes, kNodes) << nodes.type;
  }
  ASSERT_EQ(back->edges.size(), 3u);
  for (const SourceEdges& edges : back->edges) {
    const bool is_empty = edges.type == "author:writes:paper";
    EXPECT_EQ(edges.num_edges(), is_empty ? 0 : kEdges) << edges.type;
  }
  EdgeBlock expected;
  EdgeBlock found;
  ASSERT_TRUE(graph.edges[1].edges->Read(0, kEdges, expected).ok());
  ASSERT_TRUE(back->edges[0].edges->Read(0, kEdges, found).ok());
  EXPECT_EQ(found.sources, expected.sources);
  EXPECT_EQ(found.destinations, expected.destinations);
}

TEST_F(PaperWritersTest, Mag240mRefusesWhatItHasNoPlaceFor) {
  const auto refuse = [&](SourceGraph graph, const char* why) {
    const absl::Status status =
        WriteMag240m(context_, graph, scratch_.Path("mag"));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    EXPECT_FALSE(IsThere("mag"));
  };
  SourceGraph graph = WithAuthors();
  graph.edges[1].type = "author:likes:institution";
  refuse(std::move(graph), "edges of type \"author:likes:institution\"");
  graph = WithAuthors();
  graph.nodes.push_back({});
  graph.nodes.back().type = "journal";
  graph.nodes.back().num_nodes = 1;
  refuse(std::move(graph), "nodes of type \"journal\"");
  graph = WithAuthors();
  graph.nodes[1].features = std::move(graph.nodes[0].features);
  refuse(std::move(graph), "features or labels of nodes of type \"author\"");
  graph = WithAuthors();
  graph.nodes[0].features = nullptr;
  refuse(std::move(graph), "has no features");
  graph = Generated();
  graph.nodes[0].split[2] = nullptr;
  refuse(std::move(graph), "has no test nodes");
}

TEST_F(PaperWritersTest, Mag240mRefusesFeaturesBeyondFloat16) {
  SourceGraph graph = Generated();
  std::vector<float> values(3 * kNodes, 65504.f);
  graph.nodes[0].features = Matrix(values, 3);
  EXPECT_TRUE(WriteMag240m(context_, graph, scratch_.Path("fits")).ok());
  values[7] = 65520.f;
  graph.nodes[0].features = Matrix(values, 3);
  const absl::Status status =
      WriteMag240m(context_, graph, scratch_.Path("mag"));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("65520"), HasSubstr("float16")));
  EXPECT_FALSE(IsThere("mag"));
}

TEST_F(PaperWritersTest, IgbNamesLabelsByTheirNumberOfClasses) {
  SourceGraph few = Generated(19);
  ASSERT_TRUE(WriteIgb(context_, few, scratch_.Path("few")).ok());
  EXPECT_TRUE(IsThere("few/processed/paper/node_label_19.npy"));
  SourceGraph many = Generated(20);
  ASSERT_TRUE(WriteIgb(context_, many, scratch_.Path("many")).ok());
  EXPECT_FALSE(IsThere("many/processed/paper/node_label_19.npy"));
  FormatOptions options;
  options.igb.num_classes = 2983;
  const auto back = OpenFormat(context_, "igb", scratch_.Path("many"), options);
  ASSERT_TRUE(back.ok()) << back.status();
  std::vector<int64_t> expected(kNodes);
  std::vector<int64_t> found(kNodes);
  ASSERT_TRUE(many.nodes[0].labels->ReadInts(0, absl::MakeSpan(expected)).ok());
  ASSERT_TRUE(back->nodes[0].labels->ReadInts(0, absl::MakeSpan(found)).ok());
  EXPECT_EQ(found, expected);
  SourceGraph most = Generated(kNodes);
  const absl::Status status = WriteIgb(context_, most, scratch_.Path("most"));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_FALSE(IsThere("most"));
}

TEST_F(PaperWritersTest, IgbNeedsNoSplit) {
  SourceGraph graph = Generated();
  graph.nodes[0].split = {};
  EXPECT_TRUE(WriteIgb(context_, graph, scratch_.Path("igb")).ok());
  graph.nodes[0].labels = nullptr;
  EXPECT_TRUE(absl::IsInvalidArgument(
      WriteIgb(context_, graph, scratch_.Path("none"))));
}

TEST_F(PaperWritersTest, OgbKeepsEveryFloat32) {
  SourceGraph graph = Generated();
  std::vector<float> values(2 * kNodes, 0.1f);
  const std::vector<float> hard = {
      1e-45f, -1.17549435e-38f, 3.4028235e38f, 16777217.0f,
      -0.0f,  1.0f / 3,         -123456.789f,  1.0f};
  std::copy(hard.begin(), hard.end(), values.begin());
  graph.nodes[0].features = Matrix(values, 2);
  ASSERT_TRUE(WriteOgb(context_, graph, scratch_.Path("ogb")).ok());
  const auto back = OpenFormat(context_, "ogb", scratch_.Path("ogb"));
  ASSERT_TRUE(back.ok()) << back.status();
  std::vector<double> found(values.size());
  ASSERT_TRUE(
      back->nodes[0].features->ReadFloats(0, absl::MakeSpan(found)).ok());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(found[i], double{values[i]}) << i;
  }
}

TEST_F(PaperWritersTest, OgbRefusesNamesThatAddInverseEdges) {
  SourceGraph graph = Generated();
  for (const char* name : {"ogbn_products", "products", "ogbn-proteins"}) {
    const absl::Status status = WriteOgb(context_, graph, scratch_.Path(name));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("inverse"));
    EXPECT_FALSE(IsThere(name));
  }
  EXPECT_TRUE(WriteOgb(context_, graph, scratch_.Path("my_products")).ok());
}

TEST_F(PaperWritersTest, OgbNeedsNoFeatures) {
  SourceGraph graph = Generated();
  graph.nodes[0].features = nullptr;
  ASSERT_TRUE(WriteOgb(context_, graph, scratch_.Path("bare")).ok());
  const auto back = OpenFormat(context_, "ogb", scratch_.Path("bare"));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->nodes[0].features, nullptr);
}

}  // namespace
}  // namespace hearth::ingest
