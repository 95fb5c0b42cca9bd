#include "server/cluster/attempts.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "engine/io/file_system.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

class AttemptsTest : public ::testing::Test {
 protected:
  AttemptsTest() { std::filesystem::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "/attempts";
  io::FileSystem& files_ = io::FileSystem::Posix();
};

TEST_F(AttemptsTest, AreKnownAfterARestart) {
  EXPECT_EQ(Attempts(files_, folder_).Find("host-a", "train-1")->number, 0u);
  {
    Attempts attempts(files_, folder_);
    ASSERT_TRUE(attempts
                    .Note("host-a", "train-1",
                          {.number = 3, .nonce = "x", .rank_job = ""})
                    .ok());
    ASSERT_TRUE(attempts.SetRankJob("host-a", "train-1", "rank-7").ok());
  }
  Attempts attempts(files_, folder_);
  const auto known = attempts.Find("host-a", "train-1");
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->number, 3u);
  EXPECT_EQ(known->nonce, "x");
  EXPECT_EQ(known->rank_job, "rank-7");
  // Of other leaders and jobs nothing is known.
  EXPECT_EQ(attempts.Find("host-b", "train-1")->number, 0u);
  EXPECT_EQ(attempts.Find("host-a", "train-2")->number, 0u);
}

TEST_F(AttemptsTest, MembersAreToldOfDeletedJobs) {
  Attempts attempts(files_, folder_);
  ASSERT_TRUE(attempts
                  .Note("a", "train-1",
                        {.number = 1, .nonce = "x", .members = {"b", "c"}})
                  .ok());
  ASSERT_TRUE(attempts.NoteDeleted("a", "train-1").ok());
  // One that was never tried.
  ASSERT_TRUE(attempts.NoteDeleted("a", "train-2").ok());
  EXPECT_EQ(attempts.Find("a", "train-1")->number, 0u);
  using Jobs = std::vector<std::string>;
  EXPECT_EQ(*attempts.DeletedJobs("a", "b"), Jobs{"train-1"});
  EXPECT_EQ(*attempts.DeletedJobs("a", "d"), Jobs{});
  ASSERT_TRUE(attempts.NoteTold("a", {"train-1"}, "b").ok());
  EXPECT_EQ(*attempts.DeletedJobs("a", "b"), Jobs{});
  EXPECT_EQ(*attempts.DeletedJobs("a", "c"), Jobs{"train-1"});
  ASSERT_TRUE(attempts.NoteTold("a", {"train-1"}, "c").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// A copy of a leader's disk makes attempts of the same numbers.
TEST_F(AttemptsTest, OnlyNewerOnesAreTaken) {
  Attempts attempts(files_, folder_);
  ASSERT_TRUE(
      attempts.Note("a", "train-1", {.number = 3, .nonce = "x", .rank_job = ""})
          .ok());
  for (const uint64_t number : {1, 2, 3}) {
    const absl::Status status = attempts.Note(
        "a", "train-1", {.number = number, .nonce = "y", .rank_job = ""});
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "attempt 3")) << status;
  }
  EXPECT_TRUE(
      attempts.Note("a", "train-1", {.number = 4, .nonce = "y", .rank_job = ""})
          .ok());
  EXPECT_EQ(attempts.Find("a", "train-1")->nonce, "y");
}

TEST_F(AttemptsTest, ADamagedFileIsTold) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/a~train-1.json") << "{\"number\": ";
  const absl::Status status =
      Attempts(files_, folder_).Find("a", "train-1").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "a~train-1.json")) << status;
}

TEST_F(AttemptsTest, TheLeaderOfAnAdoptedJobIsRefusedFromThenOn) {
  Attempts attempts(files_, folder_);
  ASSERT_EQ(attempts.Note("host-a", "train-3", {.number = 4, .nonce = "x"}),
            absl::OkStatus());
  ASSERT_EQ(attempts.NoteAdopted("host-a", "train-3", "host-b", ""),
            absl::OkStatus());
  // Its job is known later.
  ASSERT_EQ(attempts.NoteAdopted("host-a", "train-3", "host-b", "train-7"),
            absl::OkStatus());
  const absl::Status refused = absl::FailedPreconditionError(
      "host-a's train-3 was adopted: host-b goes on with it, as train-7");
  const Attempt newer = {.number = 5, .nonce = "y"};
  EXPECT_EQ(attempts.Check("host-a", "train-3", newer), refused);
  EXPECT_EQ(attempts.Note("host-a", "train-3", newer), refused);
  EXPECT_EQ(attempts.NoteAdopted("host-a", "train-3", "host-c", ""), refused);
  EXPECT_EQ(attempts.Check("host-a", "train-4", newer), absl::OkStatus());
}

}  // namespace
}  // namespace hearth::server
