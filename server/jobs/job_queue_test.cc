#include "server/jobs/job_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hearth::server {
namespace {

using job::MemoryAvailability;
using ::testing::ElementsAre;

constexpr uint64_t kLarge = 100;

class JobQueueTest : public testing::Test {
 protected:
  void Add(int64_t number, int priority = 0, Lane lane = Lane::kTraining,
           bool takes_memory = true, const std::string& sharing_key = "",
           std::optional<int64_t> epoch = {}) {
    QueuedJob job;
    job.sharing.key = sharing_key;
    job.sharing.epoch = epoch;
    job.id = "job-" + std::to_string(number);
    job.sharing.job = job.id;
    job.number = number;
    job.priority = priority;
    job.lane = lane;
    job.takes_memory = takes_memory;
    queue_.Add(job);
  }

  // Takes a job and returns its number; 0 = none.
  int64_t Take(Lane lane = Lane::kTraining) {
    const auto shares = [this](const job::SharedPassCandidate& candidate) {
      ++asked_;
      return candidate.key == only_ &&
             (has_place_ || expected_.contains(candidate.job)) &&
             (!next_epoch_.has_value() || candidate.epoch == next_epoch_);
    };
    const std::set<std::string> groups = {only_.value_or("")};
    const auto job = queue_.Take(lane, now_,
                                 {.is_free = !only_.has_value(),
                                  .shares = shares,
                                  .running_groups = groups,
                                  .expected = expected_});
    if (!job.has_value()) return 0;
    taken_ = *job;
    return job->number;
  }

  // Puts the job that was taken last back, to wait.
  void Wait(WaitCause cause, uint64_t bytes = 0) {
    queue_.AddWaiting(taken_, cause, bytes, now_);
  }

  double now_ = 1000;
  MemoryAvailability availability_ = MemoryAvailability::kHeldByJobs;
  uint64_t plan_space_ = 10;
  // The feed whose client asks for something.
  std::string client_of_;
  JobQueue queue_{WaitOptions(),
                  [this](uint64_t bytes) {
                    return bytes < kLarge ? MemoryAvailability::kFree
                                          : availability_;
                  },
                  [this](uint64_t bytes) { return bytes <= plan_space_; },
                  [this](const std::string& id) { return id == client_of_; }};
  QueuedJob taken_;
  // If set, only jobs with this sharing key, and this epoch, have a place.
  std::optional<std::string> only_;
  std::optional<int64_t> next_epoch_;
  bool has_place_ = true;
  std::set<std::string> expected_;
  // Number of jobs that the queue asked about.
  int asked_ = 0;
};

TEST_F(JobQueueTest, TheLogNamesAJobAndItsTrace) {
  v1::Job job;
  job.set_id("train-7");
  EXPECT_EQ(QueuedJob::Of(job).LogName(), "train-7");
  job.set_trace_id("4bf9");
  EXPECT_EQ(QueuedJob::Of(job).LogName(), "train-7 [4bf9]");
}

TEST_F(JobQueueTest, LanesFollowTheKind) {
  v1::JobSpec spec;
  spec.mutable_train();
  EXPECT_EQ(LaneOf(spec), Lane::kTraining);
  spec.mutable_prepare();
  EXPECT_EQ(LaneOf(spec), Lane::kTraining);
  spec.mutable_evaluate();
  EXPECT_EQ(LaneOf(spec), Lane::kTraining);
  spec.mutable_feed();
  EXPECT_EQ(LaneOf(spec), Lane::kTraining);
  spec.mutable_explain();
  EXPECT_EQ(LaneOf(spec), Lane::kShort);
  spec.mutable_import();
  EXPECT_EQ(LaneOf(spec), Lane::kShort);
}

TEST_F(JobQueueTest, WhatNeedsNoPlaceOvertakesWhatWaitsForOne) {
  Add(1);
  Add(2, 0, Lane::kTraining, true, "c");
  only_ = "c";
  EXPECT_EQ(Take(), 2);
  EXPECT_EQ(Take(), 0);
  queue_.PutBack(taken_);
  EXPECT_EQ(Take(), 2);
  only_.reset();
  EXPECT_EQ(Take(), 1);
}

TEST_F(JobQueueTest, ButNotForEver) {
  Add(1);
  only_ = "c";
  for (int64_t number = 2; number < 100; ++number) {
    Add(number, 0, Lane::kTraining, true, "c");
  }
  // A job of a higher priority does not wait for one of a lower priority.
  Add(100, 1, Lane::kTraining, true, "c");
  int64_t taken = 0;
  while (Take() != 0) ++taken;
  EXPECT_EQ(taken, 1 + JobQueue::kMostOvertaking);
  only_.reset();
  EXPECT_EQ(Take(), 1);
}

// The job waits for a disk first, and all jobs overtake it meanwhile.
TEST_F(JobQueueTest, NorAfterAWait) {
  Add(1);
  ASSERT_EQ(Take(), 1);
  Wait(WaitCause::kDisk);
  only_ = "c";
  int64_t number = 2;
  for (; number < 40; ++number) {
    Add(number, 0, Lane::kTraining, true, "c");
    ASSERT_EQ(Take(), number);
  }
  now_ += 100;
  for (; number < 40 + JobQueue::kMostOvertaking; ++number) {
    Add(number, 0, Lane::kTraining, true, "c");
    ASSERT_EQ(Take(), number);
  }
  Add(number, 0, Lane::kTraining, true, "c");
  EXPECT_EQ(Take(), 0);
  only_.reset();
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(Take(), number);
}

TEST_F(JobQueueTest, OnesThatAreExpectedHaveTheirPlaces) {
  for (int64_t number = 1; number < 50; ++number) {
    Add(number, 0, Lane::kTraining, true, "c");
  }
  Add(50, 1, Lane::kTraining, true, "c");
  only_ = "c";
  has_place_ = false;
  // The first job is expected elsewhere.
  expected_ = {"job-7", "job-9", "job-99"};
  EXPECT_EQ(Take(), 7);
  EXPECT_EQ(Take(), 9);
  EXPECT_EQ(Take(), 0);
  has_place_ = true;
  EXPECT_EQ(Take(), 50);
}

TEST_F(JobQueueTest, TheFirstOfTheNextEpochShares) {
  Add(1, 0, Lane::kTraining, true, "c", 4);
  Add(2, 0, Lane::kTraining, true, "c", 5);
  Add(3, 0, Lane::kTraining, true, "c", 5);
  Add(4, 1, Lane::kTraining, true, "c");
  Add(5, 1, Lane::kTraining, true, "d", 5);
  only_ = "c";
  next_epoch_ = 5;
  EXPECT_EQ(Take(), 2);
  queue_.Remove("job-3");
  EXPECT_EQ(Take(), 0);
}

TEST_F(JobQueueTest, MembersAreInOrder) {
  Add(1, 0, Lane::kTraining, true, "c", 4);
  Add(2, 0, Lane::kTraining, true, "c", 5);
  Add(3, 0, Lane::kTraining, true, "d", 4);
  Add(4, 1, Lane::kTraining, true, "c", 4);
  Add(5, 0, Lane::kTraining, true, "c", 4);
  queue_.Remove("job-5");
  std::vector<std::string> members;
  for (const job::SharedPassCandidate& member :
       queue_.CandidatesOf(Lane::kTraining, "c")) {
    members.push_back(member.job);
  }
  EXPECT_THAT(members, ElementsAre("job-4", "job-1", "job-2"));
  EXPECT_TRUE(queue_.CandidatesOf(Lane::kShort, "c").empty());
}

TEST_F(JobQueueTest, FewAreLookedAtHoweverManyThereAre) {
  for (int64_t number = 1; number <= 10'000; ++number) {
    Add(number, 0, Lane::kTraining, true, number % 2 == 0 ? "c" : "d");
  }
  only_ = "c";
  has_place_ = false;
  expected_ = {"job-5000"};
  EXPECT_EQ(Take(), 5000);
  EXPECT_EQ(Take(), 0);
  EXPECT_LE(asked_, 4);
  EXPECT_EQ(queue_.CandidatesOf(Lane::kTraining, "c").size(),
            JobQueue::kMostCandidates);
}

TEST_F(JobQueueTest, PriorityThenNumber) {
  for (const int64_t number : {3, 1, 2}) Add(number);
  Add(4, 7);
  Add(5, -7);
  Add(6, 7);
  std::vector<int64_t> order;
  while (const int64_t number = Take()) order.push_back(number);
  EXPECT_THAT(order, ElementsAre(4, 6, 1, 2, 3, 5));
}

TEST_F(JobQueueTest, LanesDoNotWaitForEachOther) {
  Add(1);
  Add(2, 0, Lane::kShort);
  EXPECT_EQ(Take(Lane::kShort), 2);
  EXPECT_EQ(Take(Lane::kShort), 0);
  EXPECT_EQ(Take(), 1);
}

TEST_F(JobQueueTest, PausesDouble) {
  Add(1);
  for (const double pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    ASSERT_EQ(Take(), 1) << pause;
    Wait(WaitCause::kDisk);
    EXPECT_EQ(queue_.NextRetry(Lane::kTraining, now_), now_ + pause);
    EXPECT_EQ(queue_.NextRetry(Lane::kShort, now_),
              std::numeric_limits<double>::infinity());
    now_ += pause - 0.5;
    EXPECT_EQ(Take(), 0) << pause;
    now_ += 0.5;
  }
}

TEST_F(JobQueueTest, APauseIsCutShort) {
  Add(1);
  ASSERT_EQ(Take(), 1);
  Wait(WaitCause::kDiskSpace);
  queue_.RetryNow(WaitCause::kDisk);
  EXPECT_EQ(Take(), 0);
  queue_.RetryNow(WaitCause::kDiskSpace);
  EXPECT_EQ(Take(), 1);
}

TEST_F(JobQueueTest, OneThatWaitsKeepsItsPlace) {
  Add(1);
  Add(2);
  ASSERT_EQ(Take(), 1);
  Wait(WaitCause::kDisk);
  now_ += 1;
  EXPECT_EQ(Take(), 1);
}

// Trying costs little, and machines soon come back.
TEST_F(JobQueueTest, MachinesAreLookedForEveryFewSeconds) {
  Add(1);
  for (int tries = 0; tries < 20; ++tries) {
    ASSERT_EQ(Take(), 1) << tries;
    Wait(WaitCause::kPeer);
    now_ += 0.9;
    EXPECT_EQ(Take(), 0);
    now_ += 5.2;
  }
}

TEST_F(JobQueueTest, DisksAreWaitedForSoLong) {
  Add(1);
  ASSERT_EQ(Take(), 1);
  EXPECT_TRUE(queue_.MayWait(taken_, WaitCause::kDisk, now_));
  Wait(WaitCause::kDisk);
  now_ += 24 * 3600 - 1;
  ASSERT_EQ(Take(), 1);
  EXPECT_TRUE(queue_.MayWait(taken_, WaitCause::kDisk, now_));
  now_ += 1;
  EXPECT_FALSE(queue_.MayWait(taken_, WaitCause::kDisk, now_));
  EXPECT_FALSE(queue_.MayWait(taken_, WaitCause::kDiskSpace, now_));
  EXPECT_TRUE(queue_.MayWait(taken_, WaitCause::kMemory, now_));
  EXPECT_TRUE(queue_.MayWait(taken_, WaitCause::kPlanSpace, now_));
  // Progress in between begins a new wait.
  taken_.tries = 0;
  EXPECT_TRUE(queue_.MayWait(taken_, WaitCause::kDisk, now_));
}

TEST_F(JobQueueTest, SpaceForAPlanIsTakenWhenItIsThere) {
  Add(1);
  ASSERT_EQ(Take(), 1);
  Wait(WaitCause::kPlanSpace, 11);
  now_ += 48 * 3600;
  EXPECT_EQ(Take(), 0);
  plan_space_ = 11;
  EXPECT_EQ(Take(), 1);
  // The wait for a disk begins here.
  EXPECT_TRUE(queue_.MayWait(taken_, WaitCause::kPlanSpace, now_));
  Wait(WaitCause::kPlanSpace, 11);
  ASSERT_EQ(Take(), 1);
  EXPECT_TRUE(queue_.MayWait(taken_, WaitCause::kDisk, now_));
}

TEST_F(JobQueueTest, AFeedIsTriedWhenItsClientAsks) {
  Add(1);
  ASSERT_EQ(Take(), 1);
  Wait(WaitCause::kClient);
  now_ += 48 * 3600;
  Add(2);
  EXPECT_EQ(Take(), 2) << "others pass it";
  EXPECT_EQ(Take(), 0);
  client_of_ = "job-1";
  EXPECT_EQ(Take(), 1);
  EXPECT_TRUE(queue_.MayWait(taken_, WaitCause::kClient, now_));
  // The wait for a disk begins here.
  Wait(WaitCause::kClient);
  ASSERT_EQ(Take(), 1);
  EXPECT_TRUE(queue_.MayWait(taken_, WaitCause::kDisk, now_));
}

TEST_F(JobQueueTest, FeedsShareWithJobsOfTheirKey) {
  v1::Job job;
  job.set_id("feed-7");
  v1::FeedSpec& spec = *job.mutable_spec()->mutable_feed();
  spec.mutable_data()->mutable_memory();
  spec.mutable_data()->set_distinct_epochs(2);
  spec.set_join(true);
  const QueuedJob queued = QueuedJob::Of(job);
  EXPECT_EQ(queued.sharing.job, "feed-7");
  EXPECT_FALSE(queued.sharing.key.empty());
  EXPECT_EQ(queued.sharing.epoch, std::nullopt);
  EXPECT_TRUE(queued.sharing.join);
}

TEST_F(JobQueueTest, MemoryIsTakenWhenItIsThere) {
  Add(1);
  ASSERT_EQ(Take(), 1);
  Wait(WaitCause::kMemory, kLarge);
  now_ += 3600;
  EXPECT_EQ(Take(), 0);
  EXPECT_GT(queue_.NextRetry(Lane::kTraining, now_), now_) << "looks again";
  availability_ = MemoryAvailability::kFree;
  EXPECT_EQ(Take(), 1) << "before the pause is over";
}

TEST_F(JobQueueTest, OneThatWaitsForMemoryIsOvertakenSoOften) {
  Add(1);
  ASSERT_EQ(Take(), 1);
  Wait(WaitCause::kMemory, kLarge);
  int64_t number = 2;
  for (; number < 2 + JobQueue::kMostOvertaking; ++number) {
    const Lane lane = number % 2 == 0 ? Lane::kTraining : Lane::kShort;
    Add(number, 0, lane);
    ASSERT_EQ(Take(lane), number);
  }
  Add(number);
  Add(number + 1, 0, Lane::kShort);
  Add(number + 2, 0, Lane::kShort, /*takes_memory=*/false);
  EXPECT_EQ(Take(), 0) << "held";
  EXPECT_EQ(Take(Lane::kShort), number + 2) << "not in its way";
  EXPECT_EQ(Take(Lane::kShort), 0);
  Add(number + 3, 1);
  EXPECT_EQ(Take(), number + 3) << "before it, not behind";
  availability_ = MemoryAvailability::kFree;
  EXPECT_EQ(Take(), 1);
  EXPECT_EQ(Take(), number) << "no longer held";
}

TEST_F(JobQueueTest, NobodyIsHeldForMemoryOfOtherProcesses) {
  Add(1);
  ASSERT_EQ(Take(), 1);
  Wait(WaitCause::kMemory, kLarge);
  availability_ = MemoryAvailability::kHeldByOthers;
  for (int64_t number = 2; number < 100; ++number) {
    Add(number);
    ASSERT_EQ(Take(), number);
  }
}

TEST_F(JobQueueTest, TheOldestIsNewOrWaits) {
  EXPECT_EQ(queue_.OldestSince(), std::nullopt);
  Add(1);
  ASSERT_EQ(Take(), 1);
  Wait(WaitCause::kDisk);
  EXPECT_EQ(queue_.OldestSince(), 1000);
  QueuedJob early;
  early.id = "job-2";
  early.number = 2;
  early.lane = Lane::kShort;
  early.queued_since = 990;
  queue_.Add(early);
  EXPECT_EQ(queue_.OldestSince(), 990);
  ASSERT_EQ(Take(Lane::kShort), 2);
  EXPECT_EQ(queue_.OldestSince(), 1000);
}

TEST_F(JobQueueTest, RemovedOnesAreGone) {
  Add(1);
  Add(2);
  ASSERT_EQ(Take(), 1);
  EXPECT_FALSE(queue_.Contains("job-1"));
  Wait(WaitCause::kDisk);
  EXPECT_TRUE(queue_.Contains("job-1"));
  queue_.Remove("job-1");
  queue_.Remove("job-2");
  queue_.Remove("job-9");
  EXPECT_FALSE(queue_.Contains("job-1"));
  now_ += 100;
  EXPECT_EQ(Take(), 0);
}

}  // namespace
}  // namespace hearth::server
