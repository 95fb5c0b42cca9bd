#include "engine/ingest/formats/edge_list.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/parse/testing/zip_builder.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class EdgeListFormatTest : public testing::Test {
 protected:
  std::string Source() const { return scratch_.Path("edges.txt"); }

  void Write(const std::string& text) {
    std::ofstream(Source(), std::ios::binary) << text;
  }

  absl::StatusOr<ImportResult> Import(const std::string& format = "edge-list",
                                      bool relabel = false,
                                      uint64_t memory_limit_bytes = 64 << 20) {
    EdgeListOptions options = options_;
    options.relabel = relabel;
    return ImportWith(options, format, memory_limit_bytes);
  }

  absl::StatusOr<ImportResult> ImportWith(
      const EdgeListOptions& edge_list, const std::string& format = "edge-list",
      uint64_t memory_limit_bytes = 64 << 20) {
    ImportOptions options;
    options.memory_limit_bytes = memory_limit_bytes;
    options.source = Source();
    options.name = "test";
    options.destination = scratch_.Path("dataset");
    FormatOptions format_options;
    format_options.edge_list = edge_list;
    return ImportDataset(files_, {format, format_options}, options, nullptr,
                         {});
  }

  /// Sources of the edges into each node.
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

  /// Elements of an array of the dataset.
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
    EXPECT_NE(result.manifest.node_types[0].id_text.path, "");
    return IdsOf(result.manifest.node_types[0]);
  }

  /// Imports `text` without naming a format, and expects its edges, given as
  /// the sources of the edges into each node.
  void ExpectImported(const std::string& text,
                      const std::vector<std::vector<int64_t>>& neighbors,
                      bool relabel = false) {
    SCOPED_TRACE(text);
    Write(text);
    EXPECT_TRUE(files_.RemoveTree(scratch_.Path("dataset")).ok());
    const auto result = Import("", relabel);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(Neighbors(), neighbors);
    transforms_ = result->manifest.transforms;
    const auto statistics = LoadStatistics(files_, scratch_.Path("dataset"));
    ASSERT_TRUE(statistics.ok() && statistics->has_value());
    warnings_ = (*statistics)->warnings;
    if (relabel) ids_ = IdsOf(result->manifest.node_types[0]);
    EXPECT_TRUE(files_.RemoveTree(scratch_.Path("dataset")).ok());
  }

  /// Ids of the nodes as text, with "\n" between them.
  std::string IdsOf(const store::NodeTypeEntry& nodes) {
    if (nodes.ids.path.empty()) {
      const auto text = Elements<char>(nodes.id_text);
      return std::string(text.begin(), text.end());
    }
    return absl::StrJoin(Elements<int64_t>(nodes.ids), "\n");
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
  /// Options of all imports, except relabel.
  EdgeListOptions options_;
  /// Transforms of the dataset of the last ExpectImported.
  std::vector<std::string> transforms_;
  std::vector<std::string> warnings_;
  std::string ids_;
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
  EXPECT_EQ(*RecognizeEdgeList(files_, scratch_.path()), "");
  EXPECT_EQ(*RecognizeEdgeList(files_, Source() + ".not"), "");
  // The path is a file, which can only be an edge list: the error says what
  // else it is.
  const std::pair<std::string, const char*> files[] = {
      {"# nothing\n", "has no edges"},
      {"one\n", "line 1: has 1 fields; 2 are needed"},
      {"a\x01 b\n", "line 1: has control characters"},
      {std::string(100'000, 'x'), "line 1: is longer than 4096 bytes"},
      {std::string("0 1\n\0", 5), "is binary data"},
      {"BZh91AY&SY", "is compressed by bzip2"},
      {BuildZip({{.name = "a"}}), "is a zip archive"},
      {std::string("\xff\xfe"
                   "0\0 \0"
                   "1\0\n\0",
                   10),
       "is UTF-16 text"},
  };
  for (const auto& [bytes, problem] : files) {
    Write(bytes);
    for (const char* const format : {"", "edge-list"}) {
      const absl::Status refused = Import(format).status();
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << problem;
      EXPECT_THAT(std::string(refused.message()), StartsWith(Source() + ": "));
      // If the format is named, ids may be any text, and lines may be longer.
      if (*format == '\0' || problem[0] == 'i') {
        EXPECT_THAT(std::string(refused.message()), HasSubstr(problem));
      }
    }
  }
}

TEST_F(EdgeListFormatTest, AFileThatIsCutIsToldWhereItEnds) {
  for (const std::string& whole : {Gzip(kText), Zstd(kText)}) {
    const size_t size = whole.size() - 6;
    Write(whole.substr(0, size));
    for (const char* const format : {"", "edge-list"}) {
      const absl::Status refused = Import(format).status();
      EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
      EXPECT_EQ(refused.message(),
                absl::StrCat(Source(), ": is truncated, at byte ", size,
                             " of the compressed data"));
    }
  }
}

TEST_F(EdgeListFormatTest, CompressionAndMarks) {
  const std::string marked =
      "\xef\xbb\xbf"
      "1,0\n0,1\n";
  for (const std::string& bytes : {marked, Gzip(marked), Zstd(marked)}) {
    ExpectImported(bytes, {{1}, {0}});
    EXPECT_THAT(transforms_, Contains("byte order mark skipped"));
    ExpectImported(bytes, {{1}, {0}}, /*relabel=*/true);
    EXPECT_EQ(ids_, "0\n1");
  }
  ExpectImported("1,0\n", {{1}, {}});
  EXPECT_THAT(transforms_, Not(Contains(HasSubstr("mark"))));
}

TEST_F(EdgeListFormatTest, AZstdWindowBeyondTheMemoryLimitIsRefused) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) absl::StrAppend(&text, i, " 0\n");
  Write(Zstd(text, 22));
  EXPECT_TRUE(ImportWith({}, "edge-list", 16 << 20).ok());
  EXPECT_TRUE(files_.RemoveTree(scratch_.Path("dataset")).ok());
  const absl::Status refused = ImportWith({}, "edge-list", 8 << 20).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
}

TEST_F(EdgeListFormatTest, Headers) {
  constexpr char kSkipped[] = "line 1 skipped as a header: ";
  for (const std::string header :
       {"src,dst", "\"Source\", \"Target\"", "from_node_id\tto_node_id",
        "FromNodeId ToNodeId", ":START_ID,:END_ID", "a,b", "x y"}) {
    for (const bool relabel : {false, true}) {
      ExpectImported(header + "\n1,0\n0,1\n", {{1}, {0}}, relabel);
      EXPECT_THAT(transforms_, Contains(StartsWith(kSkipped))) << header;
      if (relabel) {
        EXPECT_EQ(ids_, "0\n1");
      }
    }
  }
  ExpectImported("# c\n\n\"src\",'dst'\n0,1\n", {{}, {0}});
  EXPECT_THAT(transforms_, Contains("line 3 skipped as a header: src, dst "
                                    "(--header no reads it as an edge)"));
  // Ids that look like numbers need not be numbers.
  ExpectImported("user,item\n007,010\n010,7\n", {{}, {0}, {1}}, true);
  EXPECT_EQ(ids_, "007\n010\n7");
  // Usual names make a header also if ids are text.
  ExpectImported("source,target\nrome,paris\n", {{1}, {}}, true);
  EXPECT_EQ(ids_, "paris\nrome");
  ExpectImported("who,whom,since\nrome,paris,2001\n", {{1}, {}}, true);
  ExpectImported("u,v\na,1\na,2\nb,1\nb,2\nc,1\n",
                 {{2, 3, 4}, {2, 3}, {}, {}, {}}, true);
}

TEST_F(EdgeListFormatTest, WhatIsNoHeader) {
  // A first line of words among words, and a word that is an id later.
  ExpectImported("rome,paris\nparis,london\n", {{1}, {2}, {}}, true);
  EXPECT_THAT(transforms_, Not(Contains(HasSubstr("header"))));
  ExpectImported("rome,paris\n1,2\nrome,2\n", {{}, {0, 3}, {3}, {}}, true);
  EXPECT_THAT(transforms_, Not(Contains(HasSubstr("header"))));
  ExpectImported("a,b\nc,1\n", {{3}, {}, {1}, {}}, true);
  EXPECT_EQ(ids_, "1\na\nb\nc");
  ExpectImported("rome,paris\n", {{1}, {}}, true);
  Write("0,x\n1,2\n");
  ExpectError(absl::StatusCode::kInvalidArgument, "line 1, field 2: ");
  // Of ids that are text, the message names the first.
  Write("rome,paris\nparis,london\n");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "line 1, field 1: is not an integer");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "ids that are text need --relabel");
  Write("src,dst\n");
  ExpectError(absl::StatusCode::kInvalidArgument, "has no edges");
}

TEST_F(EdgeListFormatTest, HeadersAsToldByTheOption) {
  options_.has_header = false;
  ExpectImported("src,dst\n1,0\n", {{1}, {}, {3}, {}}, true);
  EXPECT_EQ(ids_, "0\n1\ndst\nsrc");
  options_.has_header = true;
  ExpectImported("person,friend\nrome,paris\n", {{1}, {}}, true);
  ExpectImported("7,8\n0,1\n", {{}, {0}});
}

TEST_F(EdgeListFormatTest, ColumnsBesidesTheIds) {
  for (const std::string text :
       {"0 1 0.5\n1 2 0.25\n", "0\t1\t2009-01-01 12:00\n1\t2\t\n",
        "0, 1, x y\n1, 2,\n", "0;1;0,5\n1;2;0,25\n"}) {
    ExpectImported(text, {{}, {0}, {1}});
    EXPECT_THAT(warnings_,
                Contains("column 3 of the edge list is left out: edges lead "
                         "from column 1 to column 2"));
    ExpectImported(text, {{}, {0}, {1}}, true);
    EXPECT_THAT(warnings_, Contains(StartsWith("column 3 ")));
  }
  // An index, as pandas writes it, is not taken for the source.
  ExpectImported(",src,dst,w\n5,0,1,2\n6,1,2,2\n", {{}, {0}, {1}});
  EXPECT_THAT(warnings_,
              Contains("columns 1, 4 \"w\" of the edge list are left out: "
                       "edges lead from column 2 \"src\" to column 3 \"dst\""));
  ExpectImported("target,source\n0,1\n", {{1}, {}});
  ExpectImported("0 1\n1 2\n", {{}, {0}, {1}});
  EXPECT_THAT(warnings_, Each(Not(HasSubstr("column"))));
  Write("0 1 2\n0 1\n");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "line 2: has 2 fields; 3 are needed");
  Write("0 1 2\n0 1 2 3\n");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "line 2: has 4 fields; 3 are needed");
}

TEST_F(EdgeListFormatTest, ColumnsAsToldByTheOption) {
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  options_.source_column = "3";
  options_.destination_column = "1";
  ExpectImported("1 x 0\n2 x 1\n", {{}, {0}, {1}});
  ExpectImported("b 5 a\nc 5 b\n", {{}, {0}, {1}}, true);
  EXPECT_EQ(ids_, "a\nb\nc");
  // R names the columns, but not the column of row names.
  ExpectImported("to w from\n1 x 0\n2 x 1\n", {{}, {0}, {1}});
  ExpectImported("n,m,who\n1,2,a\n3,4,b\n", {{2}, {3}, {}, {}}, true);
  EXPECT_EQ(ids_, "1\n3\na\nb");
  options_.source_column = "4";
  Write("1 x 0\n");
  ExpectError(kBad, "has columns 1 .. 3, no column 4");
  options_.source_column = "0";
  ExpectError(kBad, "no column 0");
  options_.source_column = "1";
  ExpectError(kBad, "source and destination are both column 1");
  options_.source_column = "from";
  options_.destination_column = "to";
  ExpectImported("to,w,from\n1,x,0\n2,x,1\n", {{}, {0}, {1}});
  // Names in options require a header, whatever the first line looks like.
  ExpectImported("to,2,from\nb,2,a\n", {{}, {0}}, true);
  Write("to,w,From\n1,x,0\n");
  ExpectError(kBad, "line 1, the header, has no column \"from\"");
  Write("to,to,from\n1,x,0\n");
  ExpectError(kBad, "has more than one column \"to\"");
  options_.has_header = false;
  ExpectError(kBad, "has no header");
}

TEST_F(EdgeListFormatTest, AHeaderOfOtherColumnsThanTheLines) {
  Write("\"src\" \"dst\"\n\"1\" 0 1\n\"2\" 1 2\n");
  ExpectError(absl::StatusCode::kInvalidArgument,
              "line 1: is a header of 2 names; line 2 has 3 fields");
  options_.source_column = "2";
  options_.destination_column = "3";
  const auto result = Import("");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Neighbors(),
              ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(1)));
}

TEST_F(EdgeListFormatTest, Semicolons) {
  for (const bool relabel : {false, true}) {
    ExpectImported("0;1\n1; 2\n", {{}, {0}, {1}}, relabel);
    ExpectImported("src;dst\n0;1\n1;2\n", {{}, {0}, {1}}, relabel);
  }
  ExpectImported("src;dst;w\na;b;0,5\n", {{}, {0}}, true);
  // Such characters may be part of ids.
  ExpectImported("x?a;b y?c;d\ny?c;d z\n", {{}, {0}, {1}}, true);
  EXPECT_EQ(ids_, "x?a;b\ny?c;d\nz");
  ExpectImported("a;b,c\n", {{}, {0}}, true);
}

constexpr char kMatrix[] = "%%MatrixMarket matrix coordinate ";

TEST_F(EdgeListFormatTest, MatrixMarket) {
  ExpectImported(absl::StrCat(kMatrix,
                              "pattern general\n% c\n4 4 2\n"
                              "1 2\n2 3\n"),
                 {{}, {0}, {1}, {}});
  EXPECT_THAT(transforms_, Contains(StartsWith("taken for edge-list: it is a "
                                               "Matrix Market file")));
  EXPECT_THAT(warnings_, Not(Contains(HasSubstr("left out"))));
  for (const std::string field : {"real", "integer", "double"}) {
    ExpectImported(absl::StrCat("%%matrixmarket MATRIX coordinate ", field,
                                " general\r\n3 3 2\r\n1 2 -1e3\r\n2 3 7\n"),
                   {{}, {0}, {1}});
    EXPECT_THAT(warnings_, Contains("the values of the matrix are left out: "
                                    "edges have no weights"));
  }
  // Entries on either side of the diagonal; the diagonal itself counts once.
  for (const std::string entries : {"2 1\n3 3\n3 1\n", "1 2\n3 3\n1 3\n"}) {
    ExpectImported(absl::StrCat(kMatrix, "pattern symmetric\n3 3 3\n", entries),
                   {{1, 2}, {0}, {2, 0}});
  }
  ExpectImported(absl::StrCat(kMatrix, "pattern general\n3 3 1\n1 2\n"),
                 {{}, {0}, {}}, /*relabel=*/false);
  Write(absl::StrCat(kMatrix, "pattern general\n3 3 1\n1 2\n"));
  const auto result = Relabel();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->manifest.node_types[0].num_nodes, 3);
}

TEST_F(EdgeListFormatTest, MatricesThatAreNoGraphs) {
  const std::pair<std::string, const char*> files[] = {
      {"array real general\n2 2\n", "no banner"},
      {"matrix array real general\n2 2\n", "line 1: is of a dense matrix"},
      {"matrix coordinate complex general\n", "complex numbers"},
      {"matrix coordinate real skew-symmetric\n", "is of a skew-symmetric"},
      {"matrix coordinate real hermitian\n", "is of a skew-symmetric or Her"},
      {"matrix coordinate real odd\n", "a kind of matrix that is not known"},
      {"matrix coordinate odd general\n", "a kind of matrix that is not known"},
      {"matrix odd real general\n", "a kind of matrix that is not known"},
      {"matrix coordinate pattern general\n% c\n", "has no line of sizes"},
      {"matrix coordinate pattern general\n1 2\n", "line 2: is no line of"},
      {"matrix coordinate pattern general\n2 2 x\n", "line 2: is no line of"},
      {"matrix coordinate pattern general\n2 3 1\n1 3\n",
       "line 2: has 2 rows and 3 columns"},
      {"matrix coordinate pattern general\n0 0 0\n", "has 0 rows"},
      {"matrix coordinate pattern general\n2 2 0\n", "has no edges"},
      {"matrix coordinate pattern general\n2 2 1\n0 1\n",
       "line 3: has id 0; rows and columns are 1 .. 2"},
      {"matrix coordinate pattern general\n2 2 1\n1 3\n", "line 3: has id 3"},
      {"matrix coordinate pattern general\n2 2 1\n1 2 7\n",
       "line 3: has 3 fields; 2 are needed"},
      {"matrix coordinate real general\n2 2 1\n1 2\n",
       "line 3: has 2 fields; 3 are needed"},
      {"matrix coordinate pattern general\n2 2 2\n1 2\n",
       "has 1 entries; line 2 says 2"},
      {"matrix coordinate pattern general\n2 2 1\n1 2\n2 1\n",
       "line 4: is one more than the 1 entries"},
      {"matrix coordinate pattern symmetric\n2 2 2\n1 2\n2 1\n",
       "line 4: is on the other side of the diagonal"},
  };
  for (const auto& [text, problem] : files) {
    Write("%%MatrixMarket " + text);
    ExpectError(absl::StatusCode::kInvalidArgument, problem);
  }
  Write(absl::StrCat(kMatrix, "pattern general\n2 2 1\n1 2\n"));
  options_.has_header = true;
  ExpectError(absl::StatusCode::kInvalidArgument, "--header and --columns");
}

TEST_F(EdgeListFormatTest, AMatrixOfMoreNodesThanTheDiskHolds) {
  Write(absl::StrCat(kMatrix,
                     "pattern general\n9000000000000000000 "
                     "9000000000000000000 1\n1 2\n"));
  const absl::Status refused = Import().status();
  EXPECT_FALSE(refused.ok());
  EXPECT_FALSE(absl::IsInternal(refused)) << refused;
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

TEST_F(EdgeListFormatTest, MissingFile) {
  ExpectError(absl::StatusCode::kInvalidArgument, "is missing");
}

}  // namespace
}  // namespace hearth::ingest
