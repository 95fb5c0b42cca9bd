#include "engine/ingest/formats/ogb.h"

#include <string>
#include <tuple>

#include "engine/ingest/formats/reference_fixture.h"
#include "engine/ingest/parse/testing/zip_builder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {

namespace {

using testing::Contains;
using testing::HasSubstr;

/// A fixture's folder, and the name of the dataset in it.
struct Fixture {
  const char* folder;
  const char* dataset;
  const char* reason;
};

class OgbFixtureTest : public testing::TestWithParam<Fixture> {};

TEST_P(OgbFixtureTest, IsReadAsByOgb) {
  const FixtureFolder folder(GetParam().folder);
  const auto result = folder.Import(GetParam().dataset, "ogb");
  ASSERT_TRUE(result.ok()) << result.status();
  folder.ExpectAsExpected();
}

TEST_P(OgbFixtureTest, IsRecognized) {
  const FixtureFolder folder(GetParam().folder);
  const auto found =
      RecognizeFormat(io::FileSystem::Posix(), folder.Path(GetParam().dataset));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->format, "ogb");
  EXPECT_EQ(found->reason, GetParam().reason);
}

INSTANTIATE_TEST_SUITE_P(
    All, OgbFixtureTest,
    testing::Values(Fixture{"ogb_arxiv", "ogbn_arxiv",
                            "it has split and raw/num-node-list.csv"},
                    Fixture{"ogb_mag", "ogbn_mag",
                            "it has split and raw/num-node-dict.csv"},
                    Fixture{"ogb_papers100M", "ogbn_papers100M",
                            "it has split and raw/data.npz"},
                    Fixture{"ogb_products", "ogbn_products",
                            "it has split and raw/num-node-list.csv"}),
    [](const auto& param) { return std::string(param.param.dataset); });

TEST(OgbFormatTest, SaysWhatItDidToEdgesAndDidNotRead) {
  const FixtureFolder arxiv("ogb_arxiv");
  EXPECT_THAT(
      arxiv.Import("ogbn_arxiv", "ogb")->manifest.transforms,
      testing::IsSupersetOf(
          {"edge: no inverse edges added, which ogb does for ogbn-products and "
           "ogbn-proteins alone",
           "raw/node_year.csv.gz: not read"}));
  const FixtureFolder products("ogb_products");
  products.Move("ogbn_products", "products");
  EXPECT_THAT(products.Import("products", "ogb")->manifest.transforms,
              Contains("edge: the inverse of each edge added, as ogb does for "
                       "ogbn-products"));
  products.ExpectAsExpected();
  const FixtureFolder papers("ogb_papers100M");
  EXPECT_THAT(papers.Import("ogbn_papers100M", "ogb")->manifest.transforms,
              Contains("data.npz: node_year.npy not read"));
}

TEST(OgbFormatTest, PapersSplitInCsvFilesAlone) {
  const FixtureFolder papers("ogb_papers100M");
  papers.Remove("ogbn_papers100M/split/time/split_dict.pt");
  const auto result = papers.Import("ogbn_papers100M", "ogb");
  ASSERT_TRUE(result.ok()) << result.status();
  papers.ExpectAsExpected();
}

TEST(OgbFormatTest, TheSplitThatIsAskedFor) {
  const FixtureFolder folder("ogb_arxiv");
  FormatOptions options;
  options.ogb.split = "other";
  EXPECT_THAT(
      std::string(folder.ImportError("ogbn_arxiv", "ogb", options).message()),
      HasSubstr("ogbn_arxiv/split: has time; there is no \"other\""));
  for (const std::string part : {"train", "valid", "test"}) {
    folder.Write("ogbn_arxiv/split/other/" + part + ".csv",
                 part == "train"   ? "3\n1\n"
                 : part == "valid" ? "5\n"
                                   : "7\n");
  }
  EXPECT_THAT(
      std::string(folder.ImportError("ogbn_arxiv", "ogb").message()),
      HasSubstr("ogbn_arxiv/split: has other, time; say which split to use"));
  const auto result = folder.Import("ogbn_arxiv", "ogb", options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->manifest.node_types[0].train.shape[0], 2);
}

TEST(OgbFormatTest, FeaturesMayBeAbsent) {
  const FixtureFolder folder("ogb_arxiv");
  folder.Remove("ogbn_arxiv/raw/node-feat.csv.gz");
  const auto result = folder.Import("ogbn_arxiv", "ogb");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->manifest.node_types[0].features.path.empty());
  EXPECT_FALSE(result->manifest.node_types[0].labels.path.empty());
}

TEST(OgbFormatTest, LabelsThatAreNoIntegers) {
  const FixtureFolder folder("ogb_arxiv");
  folder.Remove("ogbn_arxiv/raw/node-label.csv.gz");
  std::string labels;
  for (int i = 0; i < 36; ++i) labels += i == 0 ? "nan\n" : "2.0\n";
  folder.Write("ogbn_arxiv/raw/node-label.csv", labels);
  const auto result = folder.Import("ogbn_arxiv", "ogb");
  ASSERT_TRUE(result.ok()) << result.status();
}

/// Adds a node type without nodes to ogb_mag, and `edges` edges to it.
void AddBooks(const FixtureFolder& folder, int edges) {
  const std::string raw = "ogbn_mag/raw/";
  folder.Write(raw + "num-node-dict.csv.gz",
               Gzip("author,field_of_study,institution,paper,book\n"
                    "14,9,4,26,0\n"));
  folder.Write(raw + "triplet-type-list.csv.gz",
               Gzip("author,affiliated_with,institution\n"
                    "author,writes,paper\npaper,cites,paper\n"
                    "paper,has_topic,field_of_study\npaper,in,book\n"));
  const std::string relation = raw + "relations/paper___in___book/";
  folder.Write(relation + "num-edge-list.csv", std::to_string(edges) + "\n");
  folder.Write(relation + "edge.csv", edges > 0 ? "0,0\n" : "");
}

TEST(OgbFormatTest, ATypeWithoutNodesIsLeftOut) {
  const FixtureFolder folder("ogb_mag");
  AddBooks(folder, 0);
  const auto result = folder.Import("ogbn_mag", "ogb");
  ASSERT_TRUE(result.ok()) << result.status();
  folder.ExpectAsExpected();
  EXPECT_THAT(folder.Warnings(),
              Contains("nodes \"book\": there are none; the type is left out, "
                       "and so are the edges \"paper:in:book\""));
}

TEST(OgbFormatTest, EdgesToATypeWithoutNodesAreRefused) {
  const FixtureFolder folder("ogb_mag");
  AddBooks(folder, 1);
  const absl::Status status = folder.ImportError("ogbn_mag", "ogb");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("line 1: has id 0; node ids are 0 .. -1"));
}

TEST(OgbFormatTest, WhatIsNotImportedIsSaid) {
  const FixtureFolder folder("ogb_mag");
  ASSERT_TRUE(folder.Import("ogbn_mag", "ogb").ok());
  EXPECT_THAT(folder.Warnings(),
              Contains(HasSubstr("node_year.csv.gz is left out")));
}

// ---- Refused sources

struct Malformed {
  const char* fixture;
  const char* dataset;
  /// The file that is replaced; its text is gzipped if its name ends in .gz.
  const char* file;
  const char* text;
  const char* problem;
};

class OgbMalformedTest : public testing::TestWithParam<Malformed> {};

TEST_P(OgbMalformedTest, IsRefusedNamingFileAndLine) {
  const Malformed& bad = GetParam();
  const FixtureFolder folder(bad.fixture);
  const std::string file = std::string(bad.dataset) + "/" + bad.file;
  folder.Write(file, Gzip(bad.text));
  const absl::Status status = folder.ImportError(bad.dataset, "ogb");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(folder.Path(file) + ": "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(bad.problem));
}

constexpr char kArxiv[] = "ogb_arxiv";
constexpr char kMag[] = "ogb_mag";
INSTANTIATE_TEST_SUITE_P(
    Files, OgbMalformedTest,
    testing::Values(
        Malformed{kArxiv, "ogbn_arxiv", "raw/edge.csv.gz", "1,2\n3,x\n",
                  "line 2, field 2: "},
        Malformed{kArxiv, "ogbn_arxiv", "raw/edge.csv.gz", "1,2\n36,0\n",
                  "line 2: has id 36; node ids are 0 .. 35"},
        Malformed{kArxiv, "ogbn_arxiv", "raw/edge.csv.gz", "1,2\n-1,0\n",
                  "line 2: has id -1"},
        Malformed{kArxiv, "ogbn_arxiv", "raw/edge.csv.gz", "1,2\n3,4\n",
                  "has 2 lines; 150 are needed"},
        Malformed{kArxiv, "ogbn_arxiv", "raw/num-node-list.csv.gz", "36\n36\n",
                  "line 2: follows"},
        Malformed{kArxiv, "ogbn_arxiv", "raw/num-node-list.csv.gz", "0\n",
                  "line 1: is 0"},
        Malformed{kArxiv, "ogbn_arxiv", "raw/num-node-list.csv.gz", "",
                  "has 0 lines; 1 are needed"},
        Malformed{kArxiv, "ogbn_arxiv", "raw/node-feat.csv.gz", "1,2\n3\n",
                  "line 2"},
        Malformed{kArxiv, "ogbn_arxiv", "raw/node-feat.csv.gz", "1,2\n",
                  "has 1 lines; 36 are needed"},
        Malformed{kArxiv, "ogbn_arxiv", "raw/node-label.csv.gz", "1\nzwei\n",
                  "line 2"},
        Malformed{kArxiv, "ogbn_arxiv", "split/time/train.csv.gz", "1\n36\n",
                  "[1] is 36; node ids are 0 .. 35"},
        Malformed{kArxiv, "ogbn_arxiv", "split/time/train.csv.gz", "1\n1\n",
                  "[1] is node 1, which is in the list already"},
        Malformed{kArxiv, "ogbn_arxiv", "split/time/train.csv.gz", "",
                  "is empty"},
        Malformed{kMag, "ogbn_mag", "raw/num-node-dict.csv.gz", "a,b\n1\n",
                  "line 2: has 1 values, 2 are named"},
        Malformed{kMag, "ogbn_mag", "raw/num-node-dict.csv.gz", "a,b\n1,-1\n",
                  "line 2, field 2: is no number"},
        Malformed{kMag, "ogbn_mag", "raw/num-node-dict.csv.gz", "../a\n1\n",
                  "is no name"},
        Malformed{kMag, "ogbn_mag", "raw/num-node-dict.csv.gz", "a\n",
                  "a line of names and one of values"},
        Malformed{kMag, "ogbn_mag", "raw/triplet-type-list.csv.gz", "a,b\n",
                  "line 1: needs a source"},
        Malformed{kMag, "ogbn_mag", "raw/triplet-type-list.csv.gz",
                  "paper,cites,book\n", "nodes of a type that"},
        Malformed{kMag, "ogbn_mag", "raw/triplet-type-list.csv.gz",
                  "paper,../cites,paper\n", "is no name"},
        Malformed{kMag, "ogbn_mag", "raw/nodetype-has-label.csv.gz",
                  "paper\nYes\n", "line 2, field 1: is not True or False"},
        Malformed{kMag, "ogbn_mag", "split/time/nodetype-has-split.csv.gz",
                  "book\nTrue\n", "nodes of a type that"}));

TEST(OgbMissingTest, FilesAreNamed) {
  for (const std::string file :
       {"raw/edge.csv.gz", "raw/num-edge-list.csv.gz", "raw/node-label.csv.gz",
        "split/time/test.csv.gz"}) {
    const FixtureFolder folder("ogb_arxiv");
    folder.Remove("ogbn_arxiv/" + file);
    const absl::Status status = folder.ImportError("ogbn_arxiv", "ogb");
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(folder.Path("ogbn_arxiv/" + file) + ": is missing"));
  }
  const FixtureFolder folder("ogb_papers100M");
  folder.Remove("ogbn_papers100M/raw/node-label.npz");
  EXPECT_THAT(
      std::string(folder.ImportError("ogbn_papers100M", "ogb").message()),
      HasSubstr("node-label.npz: is missing"));
}

TEST(OgbTruncatedTest, ArchivesAreDataLoss) {
  for (const auto& [fixture, dataset, file] :
       {std::tuple("ogb_arxiv", "ogbn_arxiv", "raw/edge.csv.gz"),
        std::tuple("ogb_mag", "ogbn_mag",
                   "raw/node-feat/paper/node-feat.csv.gz"),
        std::tuple("ogb_arxiv", "ogbn_arxiv", "split/time/train.csv.gz")}) {
    const FixtureFolder folder(fixture);
    const std::string path = std::string(dataset) + "/" + file;
    const std::string bytes = folder.Read(path);
    folder.Write(path, bytes.substr(0, bytes.size() - 9));
    const absl::Status status = folder.ImportError(dataset, "ogb");
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder.Path(path)));
  }
}

TEST(OgbTruncatedTest, AnotherArchiveInPlaceOfTheData) {
  const FixtureFolder folder("ogb_papers100M");
  folder.Write("ogbn_papers100M/raw/data.npz",
               folder.Read("ogbn_papers100M/raw/node-label.npz"));
  const absl::Status status = folder.ImportError("ogbn_papers100M", "ogb");
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("data.npz: has no array num_nodes_list"));
}

constexpr char kSource[] = "mag240m_kddcup2021";

class Mag240mFormatTest : public testing::Test {
 protected:
  std::string Name(const std::string& name) {
    return std::string(kSource) + "/" + name;
  }

  void ExpectError(absl::StatusCode code, const std::string& file,
                   const std::string& problem) {
    const absl::Status status = folder_.ImportError(kSource, "mag240m");
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(folder_.Path(Name(file))));
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  }

  const FixtureFolder folder_{"mag240m"};
};

TEST_F(Mag240mFormatTest, IsReadAsByOgb) {
  const auto result = folder_.Import(kSource, "mag240m");
  ASSERT_TRUE(result.ok()) << result.status();
  folder_.ExpectAsExpected({{"test", "test-whole"}});
  const store::Manifest& manifest = result->manifest;
  ASSERT_EQ(manifest.node_types.size(), 3u);
  EXPECT_EQ(manifest.node_types[0].name, "author");
  EXPECT_EQ(manifest.node_types[0].num_nodes, 11);
  EXPECT_TRUE(manifest.node_types[0].features.path.empty());
  EXPECT_EQ(manifest.node_types[1].num_nodes, 4);
  EXPECT_EQ(manifest.node_types[2].features.dtype, store::DType::kFloat16);
  ASSERT_EQ(manifest.edge_types.size(), 3u);
  EXPECT_EQ(manifest.edge_types[0].name, "author:affiliated_with:institution");
  EXPECT_EQ(manifest.edge_types[1].destination_type, "paper");
}

TEST_F(Mag240mFormatTest, TheOtherFormOfTheSplit) {
  folder_.Move("split_dict_with_test_parts.pt", Name("split_dict.pt"));
  const auto result = folder_.Import(kSource, "mag240m");
  ASSERT_TRUE(result.ok()) << result.status();
  folder_.ExpectAsExpected({{"test", "test-whole"}});
  EXPECT_THAT(result->manifest.transforms,
              testing::Contains("split_dict.pt: test-whole is the test part"));
}

TEST_F(Mag240mFormatTest, FeaturesInPlace) {
  const auto result = folder_.Import(kSource, "mag240m", {}, true);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->manifest.node_types[2].features.in_place);
  folder_.ExpectAsExpected({{"test", "test-whole"}});
}

TEST_F(Mag240mFormatTest, IsRecognized) {
  io::FileSystem& files = io::FileSystem::Posix();
  EXPECT_EQ(*RecognizeMag240m(files, folder_.Path(kSource)),
            "it has meta.pt and processed/paper/node_feat.npy");
  EXPECT_EQ(RecognizeFormat(files, folder_.Path(kSource))->format, "mag240m");
  EXPECT_EQ(*RecognizeMag240m(files, folder_.Path("expected")), "");
}

TEST_F(Mag240mFormatTest, MissingFiles) {
  for (const std::string file :
       {"meta.pt", "split_dict.pt", "processed/paper/node_feat.npy",
        "processed/paper/node_label.npy",
        "processed/author___writes___paper/edge_index.npy"}) {
    const std::string bytes = folder_.Read(Name(file));
    folder_.Remove(Name(file));
    ExpectError(absl::StatusCode::kInvalidArgument, file, "is missing");
    folder_.Write(Name(file), bytes);
  }
}

TEST_F(Mag240mFormatTest, SplitWithoutItsParts) {
  folder_.Write(Name("split_dict.pt"), folder_.Read(Name("meta.pt")));
  ExpectError(absl::StatusCode::kInvalidArgument, "split_dict.pt",
              "has no \"train\"");
}

TEST_F(Mag240mFormatTest, CountsThatAreNone) {
  folder_.Write(Name("meta.pt"), folder_.Read(Name("split_dict.pt")));
  ExpectError(absl::StatusCode::kInvalidArgument, "meta.pt",
              "\"author\" is missing");
}

TEST_F(Mag240mFormatTest, FilesOfAnotherKind) {
  folder_.Write(Name("meta.pt"), "no torch");
  ExpectError(absl::StatusCode::kInvalidArgument, "meta.pt", "");
}

TEST_F(Mag240mFormatTest, TruncatedFeatures) {
  const std::string file = "processed/paper/node_feat.npy";
  const std::string bytes = folder_.Read(Name(file));
  folder_.Write(Name(file), bytes.substr(0, bytes.size() - 1));
  ExpectError(absl::StatusCode::kDataLoss, file, "is truncated");
}

TEST_F(Mag240mFormatTest, EdgesOutOfRangeOfTheirOwnType) {
  // Ids of papers exceed ids of institutions.
  const std::string file =
      "processed/author___affiliated_with___institution/edge_index.npy";
  folder_.Write(
      Name(file),
      folder_.Read(Name("processed/paper___cites___paper/edge_index.npy")));
  ExpectError(absl::StatusCode::kInvalidArgument, file, "node ids are 0 .. ");
}

}  // namespace

}  // namespace hearth::ingest
