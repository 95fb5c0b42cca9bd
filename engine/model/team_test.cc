#include "engine/model/team.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/barrier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

TEST(TeamTest, EachMemberDoesItsPart) {
  for (const int size : {1, 2, 5}) {
    const auto team = Team::Start(size);
    ASSERT_TRUE(team.ok()) << team.status();
    std::vector<int> calls(size);
    for (int round = 0; round < 100; ++round) {
      EXPECT_TRUE((*team)
                      ->Run([&](int member) {
                        ++calls[member];
                        return absl::OkStatus();
                      })
                      .ok());
    }
    EXPECT_THAT(calls, ::testing::Each(100));
  }
}

TEST(TeamTest, MembersWorkAtTheSameTimeAndKeepTheirThreads) {
  const auto team = Team::Start(3);
  ASSERT_TRUE(team.ok());
  std::vector<std::thread::id> threads(3);
  for (int round = 0; round < 2; ++round) {
    // Nobody passes before all are there. The last one out deletes it.
    auto* const barrier = new absl::Barrier(3);
    EXPECT_TRUE((*team)
                    ->Run([&](int member) {
                      if (round == 0) {
                        threads[member] = std::this_thread::get_id();
                      }
                      EXPECT_EQ(threads[member], std::this_thread::get_id());
                      if (barrier->Block()) delete barrier;
                      return absl::OkStatus();
                    })
                    .ok());
  }
  EXPECT_NE(threads[0], threads[1]);
  EXPECT_NE(threads[1], threads[2]);
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(TeamTest, AnErrorWaitsForTheOthersAndIsForgottenAfterwards) {
  const auto team = Team::Start(4);
  ASSERT_TRUE(team.ok());
  std::atomic<int> done = 0;
  const absl::Status status = (*team)->Run([&](int member) {
    ++done;
    if (member == 1) return absl::AbortedError("one");
    if (member == 3) return absl::InternalError("three");
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::AbortedError("one"));
  EXPECT_EQ(done, 4);
  EXPECT_TRUE((*team)->Run([](int) { return absl::OkStatus(); }).ok());
}

TEST(TeamTest, EndsWithoutHavingWorked) { EXPECT_TRUE(Team::Start(3).ok()); }

}  // namespace
}  // namespace hearth::model
