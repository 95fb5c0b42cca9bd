#include "engine/ingest/formats/mag240m.h"

#include <string>

#include "engine/ingest/formats/fixture_comparison.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

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
  // Papers' ids go beyond those of institutions.
  const std::string file =
      "processed/author___affiliated_with___institution/edge_index.npy";
  folder_.Write(
      Name(file),
      folder_.Read(Name("processed/paper___cites___paper/edge_index.npy")));
  ExpectError(absl::StatusCode::kInvalidArgument, file, "node ids are 0 .. ");
}

}  // namespace
}  // namespace hearth::ingest
