#include "engine/pipeline/team.h"

#include <cstdint>
#include <latch>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace hearth::pipeline {
namespace {

class TeamTest : public ::testing::TestWithParam<int> {
 protected:
  const std::unique_ptr<Team> team_ = *Team::Create(GetParam());
};

TEST_P(TeamTest, EachPartIsDoneOnceAndSeen) {
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

TEST_P(TeamTest, RangesCoverAllNumbers) {
  for (const int64_t count : {0, 1, 9, 10, 11, 100}) {
    std::vector<int> done(static_cast<size_t>(count));
    team_->RunRanges(count, 10, [&](int64_t first, int64_t numbers) {
      EXPECT_LE(numbers, 10);
      for (int64_t i = first; i < first + numbers; ++i) ++done[i];
    });
    EXPECT_EQ(std::accumulate(done.begin(), done.end(), int64_t{0}), count);
  }
}

// Nobody passes before all of its threads are there.
TEST_P(TeamTest, AllThreadsWork) {
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

INSTANTIATE_TEST_SUITE_P(Sizes, TeamTest, ::testing::Values(1, 2, 3, 8));

TEST(TeamEndTest, EndsWithoutWork) {
  for (int i = 0; i < 100; ++i) (void)*Team::Create(4);
}

}  // namespace
}  // namespace hearth::pipeline
