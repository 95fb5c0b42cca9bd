#include "engine/store/layout/edge_list_layout.h"

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/store/dataset.h"
#include "engine/store/layout/import_dataset.h"
#include "engine/store/parse/zip_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EdgeListLayoutTest : public testing::Test {
 protected:
  std::string Source() const { return scratch_.Path("edges.txt"); }

  void Write(const std::string& text) {
    std::ofstream(Source(), std::ios::binary) << text;
  }

  absl::StatusOr<ImportResult> Import(
      std::optional<Layout> layout = Layout::kEdgeList, bool relabel = false) {
    ImportOptions options;
    options.source = Source();
    options.name = "test";
    options.destination = scratch_.Path("dataset");
    LayoutOptions layout_options;
    layout_options.edge_list.relabel = relabel;
    return ImportDataset(files_, {layout, layout_options}, options, nullptr,
                         {});
  }

  /// The nodes that each node's edges come from.
  std::vector<std::vector<int64_t>> Neighbors() {
    const auto dataset = Dataset::Open(files_, scratch_.Path("dataset"));
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    const auto topology = (*dataset)->LoadTopology(Residency::kMemory);
    EXPECT_TRUE(topology.ok()) << topology.status();
    const Topology& view = (*topology)->view();
    std::vector<std::vector<int64_t>> neighbors(view.num_nodes());
    for (int64_t node = 0; node < view.num_nodes(); ++node) {
      for (int64_t i = view.indptr[node]; i < view.indptr[node + 1]; ++i) {
        std::visit(
            [&](const auto& indices) { neighbors[node].push_back(indices[i]); },
            view.indices);
      }
    }
    return neighbors;
  }

  void ExpectError(absl::StatusCode code, const std::string& problem) {
    const absl::Status status = Import().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(Source() + ": "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
    EXPECT_TRUE(
        absl::IsNotFound(files_.Stat(scratch_.Path("dataset")).status()));
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
};

constexpr char kText[] =
    "# Directed graph: example\n"
    "# FromNodeId\tToNodeId\n"
    "0\t1\n"
    "3 1\r\n"
    "\n"
    "  % another comment\n"
    "1,4\n"
    " 2 , 4 \n"
    "0 1";

TEST_F(EdgeListLayoutTest, SeparatorsCommentsAndEmptyLines) {
  Write(kText);
  const auto result = Import();
  ASSERT_TRUE(result.ok()) << result.status();
  const NodeTypeEntry& nodes = result->manifest.node_types[0];
  EXPECT_EQ(nodes.num_nodes, 5);
  EXPECT_EQ(nodes.label_width, 0);
  for (const ArrayFile* file : {&nodes.features, &nodes.labels, &nodes.train,
                                &nodes.valid, &nodes.test}) {
    EXPECT_THAT(file->path, IsEmpty());
  }
  EXPECT_THAT(Neighbors(),
              ElementsAre(IsEmpty(), ElementsAre(0, 3, 0), IsEmpty(), IsEmpty(),
                          ElementsAre(1, 2)));
}

TEST_F(EdgeListLayoutTest, Gzip) {
  Write(Gzip(kText));
  const auto result = Import();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Neighbors()[1], ElementsAre(0, 3, 0));
}

TEST_F(EdgeListLayoutTest, IsRecognized) {
  Write(kText);
  const auto result = Import(std::nullopt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->manifest.transforms[0],
            "taken for edge-list: it is text with two ids a line");
}

TEST_F(EdgeListLayoutTest, WhatIsNotRecognized) {
  for (const std::string& text :
       {std::string("1 2 3\n"), std::string("# nothing\n"),
        std::string("one\n"), std::string("a\x01 b\n"),
        Gzip(kText).substr(0, 12), std::string(100'000, 'x')}) {
    Write(text);
    EXPECT_EQ(*RecognizeEdgeList(files_, Source()), "");
  }
  EXPECT_EQ(*RecognizeEdgeList(files_, scratch_.path()), "");
  EXPECT_EQ(*RecognizeEdgeList(files_, Source() + ".not"), "");
}

TEST_F(EdgeListLayoutTest, BadLines) {
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  Write("0 1\n# c\n1 x\n");
  ExpectError(kBad, "line 3, field 2: ");
  Write("0 1\n1\n");
  ExpectError(kBad, "line 2");
  Write("0 1\n1 2 3\n");
  ExpectError(kBad, "line 2");
  Write("0 1\n1 -2\n");
  ExpectError(kBad, "line 2: has id -2");
  Write("0 9223372036854775807\n");
  ExpectError(kBad, "line 1: has id 9223372036854775807");
  Write("0 9223372036854775808\n");
  ExpectError(kBad, "line 1, field 2");
  Write("# nothing\n");
  ExpectError(kBad, "has no edges");
}

TEST_F(EdgeListLayoutTest, SparseIdsNeedRelabel) {
  Write("0 1\n7 4000000000\n");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "has ids up to 4000000000 in 2 edges");
  ExpectError(absl::StatusCode::kInvalidArgument, "--relabel");
  Write("0 9223372036854775806\n");
  ExpectError(absl::StatusCode::kInvalidArgument, "--relabel");
}

TEST_F(EdgeListLayoutTest, TruncatedGzip) {
  const std::string bytes = Gzip(kText);
  Write(bytes.substr(0, bytes.size() - 4));
  ExpectError(absl::StatusCode::kDataLoss, "");
}

TEST_F(EdgeListLayoutTest, MissingFile) {
  ExpectError(absl::StatusCode::kInvalidArgument, "is missing");
}

}  // namespace
}  // namespace hearth::store
