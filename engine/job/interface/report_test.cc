#include "engine/job/interface/report.h"

#include <string>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::HasSubstr;

class HistoryChoiceTest : public ::testing::Test {
 protected:
  static KeptHistoryChoice Example() {
    return {.choice = {.embeddings = 3,
                       .bytes = 4096,
                       .staleness = 17,
                       .share = 0.25,
                       .sample_weight = 0.5,
                       .redundancy = 12.5,
                       .shuffled_redundancy = 20,
                       .profile = "profile-0123-4567"},
            .nodes = {8, 2, 5}};
  }

  std::string Path() const { return directory_.Path("history"); }

  const io::ScratchDirectory directory_;
  io::FileSystem& files_ = io::FileSystem::Posix();
};

TEST_F(HistoryChoiceTest, ComesBack) {
  KeptHistoryChoice kept = Example();
  ASSERT_TRUE(WriteHistoryChoice(files_, directory_.path(), kept).ok());
  auto read = ReadHistoryChoice(files_, directory_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->choice == kept.choice);
  EXPECT_EQ(read->nodes, kept.nodes);

  // A choice without embeddings, in memory of its own.
  kept = {};
  ASSERT_TRUE(WriteHistoryChoice(files_, directory_.path(), kept).ok());
  read = ReadHistoryChoice(files_, directory_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->choice == kept.choice);
  EXPECT_FALSE(read->choice.share.has_value());
  EXPECT_TRUE(read->nodes.empty());
}

TEST_F(HistoryChoiceTest, IsNotFound) {
  EXPECT_TRUE(
      absl::IsNotFound(ReadHistoryChoice(files_, directory_.path()).status()));
}

// Each flipped bit and each truncation is found.
TEST_F(HistoryChoiceTest, DamageIsNamed) {
  ASSERT_TRUE(WriteHistoryChoice(files_, directory_.path(), Example()).ok());
  const std::string whole = *io::ReadWholeFile(files_, Path(), 1 << 20);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 16);
    ASSERT_TRUE(io::WriteFileAtomically(files_, Path(), damaged).ok());
    const auto read = ReadHistoryChoice(files_, directory_.path());
    ASSERT_FALSE(read.ok()) << at;
    EXPECT_THAT(read.status().message(), HasSubstr(Path()));
    ASSERT_TRUE(
        io::WriteFileAtomically(files_, Path(), whole.substr(0, at)).ok());
    EXPECT_TRUE(
        absl::IsDataLoss(ReadHistoryChoice(files_, directory_.path()).status()))
        << at;
  }
}

}  // namespace
}  // namespace hearth::job
