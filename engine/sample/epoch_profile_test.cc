#include "engine/sample/epoch_profile.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "engine/base/random.h"
#include "engine/io/atomic_file.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;
using ::testing::HasSubstr;

constexpr int64_t kNodes = 500;

EpochProfile Example() {
  RandomStream random(3, RandomPurpose::kSeedOrder, 0);
  EpochProfile profile = {.num_seeds = 40,
                          .num_rows = 1300,
                          .num_drawn = 900,
                          .drawn_pages = 600,
                          .row_pages = 2,
                          .shuffled_redundancy = 41.5,
                          .features = {},
                          .sampled = {},
                          .gathered = {}};
  for (int64_t node = 0; node < kNodes; ++node) {
    profile.features.push_back(static_cast<float>(random.Below(5)));
    profile.sampled.push_back(static_cast<float>(random.Below(7)));
    profile.gathered.push_back(static_cast<float>(random.Below(3)));
  }
  return profile;
}

TEST(EpochProfileTest, RedundancyIsRowsForEachSeed) {
  EXPECT_DOUBLE_EQ(Example().redundancy(), 32.5);
  EXPECT_EQ(EpochProfile().redundancy(), 0);
}

TEST(EpochProfileTest, BetaWeighsPagesOfListsAgainstPagesOfRows) {
  EXPECT_DOUBLE_EQ(Example().beta(), 600.0 / 900 / 2);
  EXPECT_EQ(EpochProfile().beta(), 1);
}

TEST(EpochProfileTest, TheBestHistoriesComeFirst) {
  const EpochProfile profile = Example();
  for (const double beta : {0.0, profile.beta(), 3.0}) {
    const std::vector<NodeId> all = profile.BestHistories(kNodes, beta);
    EXPECT_EQ(std::set<NodeId>(all.begin(), all.end()).size(), size_t{kNodes});
    for (size_t i = 1; i < all.size(); ++i) {
      const double better = profile.SavedByHistory(all[i - 1], beta);
      const double worse = profile.SavedByHistory(all[i], beta);
      ASSERT_GE(better, worse);
      if (better == worse) {
        ASSERT_LT(all[i - 1], all[i]);
      }
    }
    EXPECT_EQ(profile.BestHistories(20, beta),
              std::vector<NodeId>(all.begin(), all.begin() + 20));
  }
  EXPECT_TRUE(profile.BestHistories(0, 1).empty());
  EXPECT_EQ(profile.BestHistories(kNodes * 2, 1).size(), size_t{kNodes});
}

class EpochProfileFileTest : public ::testing::Test {
 protected:
  const io::ScratchDirectory directory_;
  const std::string path_ = directory_.Path("profile");
  io::FileSystem& files_ = io::FileSystem::Posix();
};

TEST_F(EpochProfileFileTest, ComesBack) {
  const EpochProfile profile = Example();
  ASSERT_TRUE(WriteEpochProfile(files_, path_, profile).ok());
  const auto read = ReadEpochProfile(files_, path_, kNodes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == profile);
  EXPECT_EQ(files_.Stat(path_)->size_bytes, EpochProfileBytes(kNodes));
}

TEST_F(EpochProfileFileTest, IsNotFound) {
  EXPECT_TRUE(
      absl::IsNotFound(ReadEpochProfile(files_, path_, kNodes).status()));
}

TEST_F(EpochProfileFileTest, AnotherGraphsIsRefused) {
  ASSERT_TRUE(WriteEpochProfile(files_, path_, Example()).ok());
  const auto read = ReadEpochProfile(files_, path_, kNodes + 1);
  EXPECT_TRUE(absl::IsDataLoss(read.status()));
  EXPECT_THAT(read.status().message(), HasSubstr(path_));
}

// Any flipped bit and any cut is found.
TEST_F(EpochProfileFileTest, DamageIsNamed) {
  ASSERT_TRUE(WriteEpochProfile(files_, path_, Example()).ok());
  const std::string whole = *io::ReadWholeFile(files_, path_, 1 << 20);
  for (size_t at = 0; at < whole.size(); at += 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    ASSERT_TRUE(io::WriteFileAtomically(files_, path_, damaged).ok());
    const auto read = ReadEpochProfile(files_, path_, kNodes);
    ASSERT_FALSE(read.ok()) << at;
    EXPECT_THAT(read.status().message(), HasSubstr(path_));
    ASSERT_TRUE(
        io::WriteFileAtomically(files_, path_, whole.substr(0, at)).ok());
    EXPECT_TRUE(
        absl::IsDataLoss(ReadEpochProfile(files_, path_, kNodes).status()))
        << at;
  }
}

}  // namespace
}  // namespace hearth::sample
