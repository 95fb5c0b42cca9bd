#include "engine/base/thread_team.h"

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace hearth {
namespace {

class ThreadTeamTest : public ::testing::TestWithParam<int> {
 protected:
  const std::unique_ptr<ThreadTeam> team_ = *ThreadTeam::Create(GetParam());
};

TEST_P(ThreadTeamTest, EachPartIsDoneOnceAndSeen) {
  for (int round = 0; round < 200; ++round) {
    for (const int64_t parts : {0, 1, 2, 3, 17}) {
      // Not atomic: a part that two threads did is a race.
      std::vector<int64_t> done(static_cast<size_t>(parts));
      team_->Run(parts, [&](int64_t part) { done[part] += part + 1; });
      for (int64_t part = 0; part < parts; ++part) {
        ASSERT_EQ(done[part], part + 1);
      }
    }
  }
}

TEST_P(ThreadTeamTest, RangesCoverAllNumbers) {
  for (const int64_t count : {0, 1, 9, 10, 11, 100}) {
    std::vector<int> done(static_cast<size_t>(count));
    team_->RunRanges(count, 10, [&](int64_t first, int64_t numbers) {
      EXPECT_LE(numbers, 10);
      for (int64_t i = first; i < first + numbers; ++i) ++done[i];
    });
    EXPECT_EQ(std::accumulate(done.begin(), done.end(), int64_t{0}), count);
  }
}

TEST_P(ThreadTeamTest, TheErrorOfTheLowestPartIsTold) {
  std::atomic<int> done = 0;
  const absl::Status status = team_->TryRun(9, [&](int64_t part) {
    ++done;
    if (part < 3) return absl::OkStatus();
    return absl::AbortedError(std::to_string(part));
  });
  EXPECT_EQ(status, absl::AbortedError("3"));
  EXPECT_EQ(done, 9);
  EXPECT_TRUE(team_->TryRun(2, [](int64_t) { return absl::OkStatus(); }).ok());
}

// Nobody passes before all of its threads are there.
TEST_P(ThreadTeamTest, AllThreadsWork) {
  absl::Mutex mutex;
  std::set<std::thread::id> threads;
  std::latch all_there(GetParam());
  team_->Run(GetParam(), [&](int64_t) {
    {
      absl::MutexLock lock(&mutex);
      threads.insert(std::this_thread::get_id());
    }
    all_there.arrive_and_wait();
  });
  EXPECT_EQ(threads.size(), static_cast<size_t>(GetParam()));
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 1u);
}

TEST_P(ThreadTeamTest, EachMemberDoesItsPartInEveryRound) {
  std::vector<int> calls(team_->size());
  for (int round = 0; round < 200; ++round) {
    EXPECT_TRUE(team_
                    ->RunWorkers([&](int worker) {
                      ++calls[worker];
                      return absl::OkStatus();
                    })
                    .ok());
    // Rounds of both kinds follow one another.
    team_->Run(2, [](int64_t) {});
  }
  EXPECT_EQ(calls, std::vector<int>(GetParam(), 200));
}

TEST_P(ThreadTeamTest, MembersWorkAtTheSameTimeAndKeepTheirThreads) {
  std::vector<std::thread::id> threads(GetParam());
  for (int round = 0; round < 3; ++round) {
    // Nobody passes before all are there.
    std::latch all_there(GetParam());
    EXPECT_TRUE(team_
                    ->RunWorkers([&](int worker) {
                      all_there.arrive_and_wait();
                      if (round == 0) {
                        threads[worker] = std::this_thread::get_id();
                      }
                      EXPECT_EQ(threads[worker], std::this_thread::get_id());
                      return absl::OkStatus();
                    })
                    .ok());
  }
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), threads.size());
  EXPECT_EQ(threads[0], std::this_thread::get_id());
}

TEST_P(ThreadTeamTest, AnErrorWaitsForTheOthersAndIsForgottenAfterwards) {
  std::atomic<int> done = 0;
  const absl::Status status = team_->RunWorkers([&](int worker) {
    ++done;
    if (worker == 0) return absl::OkStatus();
    return absl::AbortedError(std::to_string(worker));
  });
  EXPECT_EQ(status,
            GetParam() == 1 ? absl::OkStatus() : absl::AbortedError("1"));
  EXPECT_EQ(done, GetParam());
  EXPECT_TRUE(team_->RunWorkers([](int) { return absl::OkStatus(); }).ok());
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadTeamTest, ::testing::Values(1, 2, 3, 8));

TEST(TeamEndTest, EndsWithoutWork) {
  for (int i = 0; i < 100; ++i) (void)*ThreadTeam::Create(4);
}

}  // namespace
}  // namespace hearth
