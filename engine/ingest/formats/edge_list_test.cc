#include "engine/ingest/formats/edge_list.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/ingest/formats/import_dataset.h"
#include "engine/ingest/parse/zip_builder.h"
#include "engine/io/atomic_file.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/store/dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EdgeListFormatTest : public testing::Test {
 protected:
  std::string Source() const { return scratch_.Path("edges.txt"); }

  void Write(const std::string& text) {
    std::ofstream(Source(), std::ios::binary) << text;
  }

  absl::StatusOr<ImportResult> Import(const std::string& format = "edge-list",
                                      bool relabel = false,
                                      uint64_t memory_limit_bytes = 64 << 20) {
    ImportOptions options;
    options.memory_limit_bytes = memory_limit_bytes;
    options.source = Source();
    options.name = "test";
    options.destination = scratch_.Path("dataset");
    FormatOptions format_options;
    format_options.edge_list.relabel = relabel;
    return ImportDataset(files_, {format, format_options}, options, nullptr,
                         {});
  }

  /// The nodes that each node's edges come from.
  std::vector<std::vector<int64_t>> Neighbors() {
    const auto dataset = store::Dataset::Open(files_, scratch_.Path("dataset"));
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    const auto topology = (*dataset)->LoadTopology(store::Residency::kMemory);
    EXPECT_TRUE(topology.ok()) << topology.status();
    const store::Topology& view = (*topology)->view();
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

  absl::StatusOr<ImportResult> Relabel(uint64_t memory_limit_bytes = 1 << 20) {
    EXPECT_TRUE(files_.RemoveTree(scratch_.Path("dataset")).ok());
    return Import("edge-list", /*relabel=*/true, memory_limit_bytes);
  }

  /// The elements of an array of the dataset.
  template <typename T>
  std::vector<T> Elements(const store::ArrayFile& array) {
    const std::string bytes = *io::ReadWholeFile(
        files_, scratch_.Path("dataset/" + array.path), 1 << 24);
    std::vector<T> elements((bytes.size() - array.data_offset) / sizeof(T));
    std::memcpy(elements.data(), bytes.data() + array.data_offset,
                elements.size() * sizeof(T));
    return elements;
  }

  std::string IdText(const ImportResult& result) {
    const auto text = Elements<char>(result.manifest.node_types[0].id_text);
    return std::string(text.begin(), text.end());
  }

  void ExpectError(absl::StatusCode code, const std::string& problem,
                   bool relabel = false) {
    const absl::Status status = Import("edge-list", relabel).status();
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

TEST_F(EdgeListFormatTest, SeparatorsCommentsAndEmptyLines) {
  Write(kText);
  const auto result = Import();
  ASSERT_TRUE(result.ok()) << result.status();
  const store::NodeTypeEntry& nodes = result->manifest.node_types[0];
  EXPECT_EQ(nodes.num_nodes, 5);
  EXPECT_EQ(nodes.label_width, 0);
  for (const store::ArrayFile* file :
       {&nodes.features, &nodes.labels, &nodes.train, &nodes.valid,
        &nodes.test}) {
    EXPECT_THAT(file->path, IsEmpty());
  }
  EXPECT_THAT(Neighbors(),
              ElementsAre(IsEmpty(), ElementsAre(0, 3, 0), IsEmpty(), IsEmpty(),
                          ElementsAre(1, 2)));
}

TEST_F(EdgeListFormatTest, Gzip) {
  Write(Gzip(kText));
  const auto result = Import();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Neighbors()[1], ElementsAre(0, 3, 0));
}

TEST_F(EdgeListFormatTest, IsRecognized) {
  Write(kText);
  const auto result = Import("");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->manifest.transforms[0],
            "taken for edge-list: it is text with two ids a line");
}

TEST_F(EdgeListFormatTest, WhatIsNotRecognized) {
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

TEST_F(EdgeListFormatTest, BadLines) {
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

TEST_F(EdgeListFormatTest, SparseIdsNeedRelabel) {
  Write("0 1\n7 4000000000\n");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "has ids up to 4000000000 in 2 edges");
  ExpectError(absl::StatusCode::kInvalidArgument, "--relabel");
  Write("0 9223372036854775806\n");
  ExpectError(absl::StatusCode::kInvalidArgument, "--relabel");
}

TEST_F(EdgeListFormatTest, RelabelsSparseIntegers) {
  Write("# c\n700 -5\n9 4000000000,\n");
  ExpectError(absl::StatusCode::kInvalidArgument, "line 3", true);
  Write("# c\n700 -5\n9 4000000000\n700,9\n");
  const auto result = Relabel();
  ASSERT_TRUE(result.ok()) << result.status();
  const store::NodeTypeEntry& nodes = result->manifest.node_types[0];
  EXPECT_EQ(nodes.num_nodes, 4);
  EXPECT_EQ(nodes.ids.path, "node.ids.npy");
  EXPECT_EQ(nodes.id_text.path, "");
  EXPECT_THAT(Elements<int64_t>(nodes.ids),
              ElementsAre(-5, 9, 700, 4000000000));
  EXPECT_THAT(Neighbors(), ElementsAre(ElementsAre(2), ElementsAre(2),
                                       IsEmpty(), ElementsAre(1)));
  EXPECT_EQ(result->manifest.transforms[0],
            "ids numbered in ascending order: 4 nodes");
}

TEST_F(EdgeListFormatTest, RelabelsWords) {
  Write(Gzip("paris london\nrome,paris\n# no\n\xc3\xa9 rome\n"));
  const auto result = Relabel();
  ASSERT_TRUE(result.ok()) << result.status();
  const store::NodeTypeEntry& nodes = result->manifest.node_types[0];
  EXPECT_EQ(nodes.ids.path, "");
  EXPECT_EQ(nodes.id_text.path, "node.id_text.npy");
  EXPECT_EQ(nodes.num_nodes, 4);
  EXPECT_EQ(IdText(*result), "london\nparis\nrome\n\xc3\xa9");
  EXPECT_THAT(Neighbors(), ElementsAre(ElementsAre(1), ElementsAre(2),
                                       ElementsAre(3), IsEmpty()));
}

TEST_F(EdgeListFormatTest, WhatIsNotPlainlyANumberMakesAllIdsText) {
  for (const std::string odd :
       {"007", "+7", "-0", "x", "1e3", "-", "9223372036854775808"}) {
    Write("10 9\n9 " + odd + "\n");
    const auto result = Relabel();
    ASSERT_TRUE(result.ok()) << odd << result.status();
    std::set<std::string> sorted = {"10", "9", odd};
    EXPECT_EQ(IdText(*result), absl::StrJoin(sorted, "\n"));
  }
  Write("7 07\n");
  EXPECT_EQ(Relabel()->manifest.node_types[0].num_nodes, 2);
  for (const std::string number :
       {"9223372036854775807", "-9223372036854775808", "0"}) {
    Write("10 " + number + "\n");
    const auto result = Relabel();
    ASSERT_TRUE(result.ok()) << number << result.status();
    EXPECT_EQ(result->manifest.node_types[0].ids.shape[0], 2);
  }
}

TEST_F(EdgeListFormatTest, RelabelGivesTheSameDatasetAtAnyMemoryLimit) {
  for (const std::string prefix : {"", "user-"}) {
    std::string text;
    for (uint64_t i = 0; i < 60'000; ++i) {
      absl::StrAppend(&text, prefix, i * 7919 % 50'021 * 1'000'003, "\t",
                      prefix, i * i % 50'021 * 1'000'003, "\n");
    }
    Write(text);
    const auto small = Relabel(1 << 20);
    ASSERT_TRUE(small.ok()) << small.status();
    const auto large = Relabel(256 << 20);
    ASSERT_TRUE(large.ok()) << large.status();
    EXPECT_EQ(small->manifest.fingerprint, large->manifest.fingerprint);
    EXPECT_EQ(small->manifest.node_types[0].num_nodes, 50'021);
  }
}

TEST_F(EdgeListFormatTest, BadLinesToRelabel) {
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  Write("a b\n# c\na b c\n");
  ExpectError(kBad, "line 3: has 3 fields; 2 are needed", true);
  Write("1 2\n3\n");
  ExpectError(kBad, "line 2: has 1 fields", true);
  Write("a,\n");
  ExpectError(kBad, "line 1", true);
  Write(",a\n");
  ExpectError(kBad, "line 1: has an id that", true);
  Write("new york,b\n");
  ExpectError(kBad, "line 1: has an id that", true);
  Write("1 a\x01\n");
  ExpectError(kBad, "line 1: has an id that", true);
  Write("1 " + std::string(1025, 'x') + "\n");
  ExpectError(kBad, "line 1: has an id of 1025 bytes", true);
  Write("");
  ExpectError(kBad, "has no edges", true);
  Write("# nothing\n\n");
  ExpectError(kBad, "has no edges", true);
  const std::string bytes = Gzip("a b\nb c\n");
  Write(bytes.substr(0, bytes.size() - 4));
  ExpectError(absl::StatusCode::kDataLoss, "", true);
}

TEST_F(EdgeListFormatTest, TruncatedGzip) {
  const std::string bytes = Gzip(kText);
  Write(bytes.substr(0, bytes.size() - 4));
  ExpectError(absl::StatusCode::kDataLoss, "");
}

TEST_F(EdgeListFormatTest, MissingFile) {
  ExpectError(absl::StatusCode::kInvalidArgument, "is missing");
}

}  // namespace
}  // namespace hearth::ingest
