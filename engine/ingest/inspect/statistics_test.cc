#include "engine/ingest/inspect/statistics.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/strict_json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

DatasetStatistics Example() {
  DatasetStatistics statistics;
  NodeStatistics papers;
  papers.type = "paper";
  papers.num_isolated = 3;
  papers.num_unlabeled = 1;
  papers.class_counts = {4, 0, uint64_t{1} << 40};
  papers.features = FeatureStatistics{.min = -0.1,
                                      .max = 1e38,
                                      .mean = 1.0 / 3,
                                      .standard_deviation = 2.5,
                                      .num_non_finite = 7,
                                      .num_zeros = 8,
                                      .constant_columns = {0, 4294967295u},
                                      .num_zero_rows = 9};
  NodeStatistics authors;
  authors.type = "author";
  statistics.nodes = {papers, authors};
  EdgeStatistics cites, writes;
  cites.type = "cites";
  cites.mean_in_degree = 7.25;
  cites.median_in_degree = 2;
  cites.percentile_99_in_degree = 90;
  cites.max_in_degree = 1000;
  cites.num_without_in_edges = 5;
  cites.num_without_out_edges = 6;
  cites.num_self_loops = 4;
  cites.homophily = 0.625;
  writes.type = "writes";
  statistics.edges = {cites, writes};
  statistics.warnings = {"Edges may be reversed.", "\"quoted\""};
  statistics.notes = {"Not counted."};
  return statistics;
}

/// The example's text with a part replaced, and a checksum that matches.
std::string Changed(const std::string& from, const std::string& to) {
  nlohmann::ordered_json json =
      nlohmann::ordered_json::parse(SerializeStatistics(Example()));
  json.erase("crc32c");
  const std::string text = json.dump();
  const std::string changed = absl::StrReplaceAll(text, {{from, to}});
  EXPECT_NE(text, changed);
  return store::SealJson(nlohmann::ordered_json::parse(changed));
}

TEST(StatisticsTest, AreReadAsTheyWereWritten) {
  const auto read = ParseStatistics(SerializeStatistics(Example()), "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Example());
}

TEST(StatisticsTest, EveryFlippedByteIsDataLoss) {
  const std::string text = SerializeStatistics(Example());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    EXPECT_TRUE(absl::IsDataLoss(ParseStatistics(damaged, "f").status())) << i;
    EXPECT_TRUE(
        absl::IsDataLoss(ParseStatistics(text.substr(0, i), "f").status()));
  }
}

TEST(StatisticsTest, ANewerMinorVersionIsReadAndANewerMajorOneRefused) {
  EXPECT_TRUE(ParseStatistics(Changed("\"minor\":0", "\"minor\":7"), "f").ok());
  const absl::Status status =
      ParseStatistics(Changed("\"major\":1", "\"major\":2"), "f").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 2"));
}

TEST(StatisticsTest, MalformedFieldsAreNamed) {
  const struct {
    const char* from;
    const char* to;
    const char* field;
  } cases[] = {
      {"hearth-statistics", "hearth-other", "format"},
      {"\"num_zeros\":8", "\"num_zeros\":-8", "num_zeros"},
      {"\"max\":1e+38", "\"max\":\"much\"", "max"},
      {"4294967295", "4294967296", "constant_columns"},
      {"\"homophily\":0.625", "\"homophily\":null", "homophily"},
      {"\"num_isolated\":3", "\"num_isolated\":[]", "num_isolated"},
      {"\"num_self_loops\":4,", "", "num_self_loops"},
  };
  for (const auto& [from, to, field] : cases) {
    const absl::Status status =
        ParseStatistics(Changed(from, to), "f").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
}

TEST(StatisticsTest, ThereAreNoneInAFolderWithoutThem) {
  const io::ScratchDirectory scratch;
  io::FileSystem& files = io::FileSystem::Posix();
  const auto none = LoadStatistics(files, scratch.path());
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_value());
  ASSERT_TRUE(io::WriteFileAtomically(files, scratch.Path("statistics.json"),
                                      SerializeStatistics(Example()))
                  .ok());
  const auto loaded = LoadStatistics(files, scratch.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(loaded->has_value());
  EXPECT_EQ(**loaded, Example());
  ASSERT_TRUE(
      io::WriteFileAtomically(files, scratch.Path("statistics.json"), "{}")
          .ok());
  EXPECT_TRUE(absl::IsDataLoss(LoadStatistics(files, scratch.path()).status()));
}

}  // namespace
}  // namespace hearth::ingest
