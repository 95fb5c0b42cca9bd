#include "engine/ingest/formats/text_arrays.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TextArraysTest : public testing::Test {
 protected:
  const std::string& Text(const std::string& text) {
    EXPECT_TRUE(
        io::WriteFileAtomically(io::FileSystem::Posix(), path_, text).ok());
    return path_;
  }

  void ExpectInvalid(const absl::Status& status, const std::string& problem) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("numbers.csv");
  std::stop_source stop_;
  ImportContext context_{files_, 1 << 20, scratch_.Path("s/scratch"), nullptr,
                         stop_.get_token()};
};

TEST_F(TextArraysTest, ACountIsOneLine) {
  EXPECT_EQ(*ReadTextCount(context_, Text("17\n")), 17);
  EXPECT_EQ(*ReadTextCount(context_, Text("1")), 1);
  ExpectInvalid(ReadTextCount(context_, Text("")).status(), "has 0 lines");
  ExpectInvalid(ReadTextCount(context_, Text("0\n")).status(), "is 0");
  ExpectInvalid(ReadTextCount(context_, Text("-3\n")).status(), "is -3");
  ExpectInvalid(ReadTextCount(context_, Text("3\n4\n")).status(), "follows");
  ExpectInvalid(ReadTextCount(context_, Text("3,4\n")).status(), "");
  ExpectInvalid(ReadTextCount(context_, Text("x\n")).status(), "");
  ExpectInvalid(ReadTextCount(context_, scratch_.Path("numbers.csv2")).status(),
                "is missing");
}

TEST_F(TextArraysTest, FloatsAreAMatrix) {
  const auto read = ReadTextFloats(context_, Text("1,2.5\n-3e2,nan\n"), 2);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT((*read)->header().shape, ElementsAre(2, 2));
  EXPECT_EQ((*read)->header().type.item_bytes, 4);
  EXPECT_EQ((*read)->path(), path_);
  std::vector<double> values(4);
  ASSERT_TRUE((*read)->ReadFloats(0, absl::MakeSpan(values)).ok());
  EXPECT_EQ(values[1], 2.5);
  EXPECT_EQ(values[2], -300);
  EXPECT_TRUE(std::isnan(values[3]));
}

TEST_F(TextArraysTest, MatricesHaveAsManyLinesAndFieldsAsTheyShould) {
  const auto read = [&](const std::string& text) {
    return ReadTextFloats(context_, Text(text), 2).status();
  };
  ExpectInvalid(read("1,2\n"), "has 1 lines; 2 are needed");
  ExpectInvalid(read(""), "has 0 lines");
  ExpectInvalid(read("1\n2\n3\n"), "one more than the 2 nodes");
  ExpectInvalid(read("1,2\n3\n"), "");
  ExpectInvalid(read("1\n3,4\n"), "");
  ExpectInvalid(read("1\n,\n"), "");
  ExpectInvalid(read("1\nabc\n"), "");
}

TEST_F(TextArraysTest, LabelsAreWholeNumbersOrElseFloats) {
  const auto whole = ReadTextLabels(context_, Text("3\n-1\n"), 2);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_FALSE((*whole)->header().type.IsFloat());
  const auto some = ReadTextLabels(context_, Text("3,1\n4,nan\n"), 2);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_TRUE((*some)->header().type.IsFloat());
  EXPECT_EQ((*some)->header().type.item_bytes, 8);
  ExpectInvalid(ReadTextLabels(context_, Text("3\nx\n"), 2).status(), "");
}

TEST_F(TextArraysTest, IdsAreOneALine) {
  const auto read = ReadTextIds(context_, Text("5\n-1\n9223372036854775807"));
  ASSERT_TRUE(read.ok()) << read.status();
  std::vector<int64_t> ids(3);
  ASSERT_TRUE((*read)->ReadInts(0, absl::MakeSpan(ids)).ok());
  EXPECT_THAT(ids, ElementsAre(5, -1, INT64_MAX));
  EXPECT_THAT((*ReadTextIds(context_, Text("")))->header().shape,
              ElementsAre(0));
  ExpectInvalid(ReadTextIds(context_, Text("5,6\n")).status(), "");
  ExpectInvalid(ReadTextIds(context_, Text("9223372036854775808\n")).status(),
                "");
}

TEST_F(TextArraysTest, EdgesLieWithinTheirNodes) {
  const auto edges = ReadTextEdges(context_, Text("0,3\n2,0\n"), {3, 4}, 2);
  ASSERT_TRUE(edges.ok()) << edges.status();
  EdgeBlock block;
  ASSERT_TRUE((*edges)->Read(0, 2, block).ok());
  EXPECT_THAT(block.sources, ElementsAre(0, 2));
  EXPECT_THAT(block.destinations, ElementsAre(3, 0));
  const auto read = [&](const std::string& text) {
    return ReadTextEdges(context_, Text(text), {3, 4}, 2).status();
  };
  ExpectInvalid(read("0,0\n3,0\n"), "has id 3; node ids are 0 .. 2");
  ExpectInvalid(read("0,4\n"), "has id 4; node ids are 0 .. 3");
  ExpectInvalid(read("-1,0\n"), "has id -1");
  ExpectInvalid(read("0,0\n"), "has 1 lines; 2 are needed");
  ExpectInvalid(read("0,0\n0,0\n0,0\n"), "has 3 lines; 2 are needed");
  ExpectInvalid(read("0,0,0\n"), "");
  ExpectInvalid(ReadTextEdges(context_, path_, {3, 4}, INT64_MAX / 4).status(),
                "are needed");
}

TEST_F(TextArraysTest, ADiskWithoutRoomAndCancellationAreTold) {
  Text("1,2\n3,4\n");
  files_.LimitSpace(15);
  EXPECT_TRUE(
      absl::IsResourceExhausted(ReadTextFloats(context_, path_, 2).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(
      ReadTextEdges(context_, path_, {9, 9}, 2).status()));
  files_.Clear();
  stop_.request_stop();
  EXPECT_TRUE(absl::IsCancelled(ReadTextFloats(context_, path_, 2).status()));
}

}  // namespace
}  // namespace hearth::ingest
