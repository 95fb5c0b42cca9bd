#include "server/jobs/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/shared_pass.h"
#include "engine/plan/plan_store.h"
#include "engine/strategy/memory_budget.h"
#include "server/jobs/scheduler_fixture.h"
#include "server/storage/job_rows.h"
#include "server/storage/job_store.h"
#include "server/storage/sqlite.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(SchedulerTest, RunsInOrderOfSubmissionOneAtATime) {
  Start(1);
  const std::string one = Submit(), two = Submit(), three = Submit();
  runner_.AwaitStarted(1);
  AwaitState(one, v1::RUNNING);
  EXPECT_EQ(StateOf(two), v1::QUEUED);
  for (const std::string& id : {one, two, three}) {
    runner_.Succeed(id);
    AwaitState(id, v1::SUCCEEDED);
  }
  EXPECT_THAT(runner_.started(), ElementsAre(one, two, three));
}

TEST_F(SchedulerTest, RunsAsManyAsAllowed) {
  Start(2);
  const std::string one = Submit(), two = Submit(), three = Submit();
  AwaitState(one, v1::RUNNING);
  AwaitState(two, v1::RUNNING);
  EXPECT_EQ(StateOf(three), v1::QUEUED);
  runner_.Succeed(two);
  AwaitState(three, v1::RUNNING);
  EXPECT_EQ(StateOf(one), v1::RUNNING);
}

TEST_F(SchedulerTest, TellsHowLongAJobHasBeenQueued) {
  Start(1);
  const std::string one = Submit();
  AwaitState(one, v1::RUNNING);
  EXPECT_EQ(scheduler_->LongestQueueSeconds(), 0);
  Submit();
  double last = 0;
  while (last == 0) last = scheduler_->LongestQueueSeconds();
  EXPECT_GE(scheduler_->LongestQueueSeconds(), last);
}

TEST_F(SchedulerTest, QueuedToCancelled) {
  Start(1);
  const std::string one = Submit(), two = Submit(), three = Submit();
  AwaitState(one, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Cancel(two).ok());
  EXPECT_EQ(StateOf(two), v1::CANCELLED);
  runner_.Succeed(one);
  AwaitState(three, v1::RUNNING);
  EXPECT_THAT(runner_.started(), ElementsAre(one, three));
}

TEST_F(SchedulerTest, RunningToCancelled) {
  Start(1);
  const std::string id = Submit();
  AwaitState(id, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  AwaitState(id, v1::CANCELLED);
  EXPECT_FALSE(store_->Get(id)->has_error());
}

TEST_F(SchedulerTest, WhatAJobHasLeftGoesBeforeItEndsWithoutSuccess) {
  Start(1);
  const std::string good = Submit(), bad = Submit(), cancelled = Submit(),
                    queued = Submit();
  ASSERT_TRUE(scheduler_->Cancel(queued).ok());
  EXPECT_THAT(runner_.discarded(), ElementsAre(queued));
  runner_.Succeed(good);
  runner_.Finish(bad, [] { return absl::DataLossError("features.npy: bad"); });
  AwaitState(bad, v1::FAILED);
  EXPECT_THAT(runner_.discarded(), ElementsAre(queued, bad));
  AwaitState(cancelled, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Cancel(cancelled).ok());
  AwaitState(cancelled, v1::CANCELLED);
  EXPECT_THAT(runner_.discarded(), ElementsAre(queued, bad, cancelled));
  // The key stays in the spec for later runs of the job.
  const std::string interrupted = Submit();
  AwaitState(interrupted, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Stop(absl::InfiniteDuration()).ok());
  EXPECT_EQ(StateOf(interrupted), v1::QUEUED);
  EXPECT_THAT(runner_.discarded(), SizeIs(3));
}

TEST_F(SchedulerTest, CancelOfAnEndedJobDoesNothing) {
  Start(1);
  const std::string id = Submit();
  runner_.Succeed(id);
  AwaitState(id, v1::SUCCEEDED);
  EXPECT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(StateOf(id), v1::SUCCEEDED);
  EXPECT_TRUE(absl::IsNotFound(scheduler_->Cancel("train-99")));
}

TEST_F(SchedulerTest, AJobThatFinishesInSpiteOfCancelSucceeds) {
  Start(1);
  const std::string id = Submit("deaf");
  AwaitState(id, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  runner_.Succeed(id);
  AwaitState(id, v1::SUCCEEDED);
}

TEST_F(SchedulerTest, RunningToFailedByAnError) {
  Start(1);
  const std::string id = Submit();
  runner_.Finish(id, [] { return absl::DataLossError("features.npy: bad"); });
  AwaitState(id, v1::FAILED);
  const auto job = store_->Get(id);
  EXPECT_EQ(job->error().code(), static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_EQ(job->error().message(), "features.npy: bad");
}

TEST_F(SchedulerTest, ACancellationThatNobodyAskedForIsAFailure) {
  Start(1);
  const std::string id = Submit();
  runner_.Finish(id, [] { return absl::CancelledError("a whim"); });
  AwaitState(id, v1::FAILED);
}

TEST_F(SchedulerTest, ExceptionsFailTheJobAndTheNextRuns) {
  Start(1);
  const std::string memory = Submit(), error = Submit(), odd = Submit();
  const std::string good = Submit();
  runner_.Finish(memory, []() -> absl::StatusOr<v1::JobReport> {
    throw std::bad_alloc();
  });
  runner_.Finish(error, []() -> absl::StatusOr<v1::JobReport> {
    throw std::runtime_error("boom");
  });
  runner_.Finish(odd, []() -> absl::StatusOr<v1::JobReport> { throw 7; });
  runner_.Succeed(good);
  AwaitState(good, v1::SUCCEEDED);
  EXPECT_EQ(store_->Get(memory)->error().code(),
            static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(store_->Get(error)->error().message(), HasSubstr("boom"));
  EXPECT_EQ(StateOf(odd), v1::FAILED);
}

TEST_F(SchedulerTest, StopPutsRunningJobsBackAndStartsNoMore) {
  Start(1);
  const std::string one = Submit(), two = Submit();
  AwaitState(one, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Stop(absl::InfiniteDuration()).ok());
  EXPECT_EQ(StateOf(one), v1::QUEUED);
  EXPECT_EQ(StateOf(two), v1::QUEUED);
  EXPECT_THAT(runner_.started(), ElementsAre(one));
}

TEST_F(SchedulerTest, AStoppedJobRunsAgainAfterARestart) {
  Start(1);
  const std::string id = Submit();
  AwaitState(id, v1::RUNNING);
  scheduler_.reset();
  EXPECT_EQ(StateOf(id), v1::QUEUED);
  FakeRunner next;
  Scheduler scheduler(*store_, next, memory_, plans_, Clock::Real(), {});
  next.Succeed(id);
  scheduler.Load(*store_->Unended());
  scheduler.Start();
  AwaitState(id, v1::SUCCEEDED);
}

TEST_F(SchedulerTest, AUsersCancelWinsOverAStop) {
  Start(1);
  const std::string id = Submit("deaf");
  AwaitState(id, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(scheduler_->Stop(absl::ZeroDuration()).code(),
            absl::StatusCode::kDeadlineExceeded);
  runner_.Finish(id, [] { return absl::CancelledError("stopped"); });
  ASSERT_TRUE(scheduler_->Stop(absl::InfiniteDuration()).ok());
  EXPECT_EQ(StateOf(id), v1::CANCELLED);
}

TEST_F(SchedulerTest, StopNamesThoseThatDoNotStop) {
  Start(1);
  const std::string id = Submit("deaf");
  AwaitState(id, v1::RUNNING);
  const absl::Status status = scheduler_->Stop(absl::ZeroDuration());
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr(id));
  runner_.Succeed(id);
}

TEST_F(SchedulerTest, CancelWorksAfterAStop) {
  Start(1);
  const std::string one = Submit(), two = Submit();
  AwaitState(one, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Stop(absl::InfiniteDuration()).ok());
  ASSERT_TRUE(scheduler_->Cancel(two).ok());
  EXPECT_EQ(StateOf(two), v1::CANCELLED);
}

// Makes every change of a job's row fail, like a full disk.
void BreakStore(const std::string& path, bool broken) {
  auto database = Database::Open(path);
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE((*database)
                  ->Execute(broken
                                ? "CREATE TRIGGER full BEFORE UPDATE ON jobs "
                                  "BEGIN SELECT RAISE(ABORT, 'full'); END"
                                : "DROP TRIGGER full")
                  .ok());
}

TEST_F(SchedulerTest, AnEndThatCannotBeWrittenIsWrittenLater) {
  Start(1);
  const std::string id = Submit();
  AwaitState(id, v1::RUNNING);
  BreakStore(path_, true);
  absl::Notification ended;
  runner_.Finish(id, [&] {
    ended.Notify();
    return v1::JobReport();
  });
  ended.WaitForNotification();
  EXPECT_EQ(StateOf(id), v1::RUNNING);
  BreakStore(path_, false);
  AwaitState(id, v1::SUCCEEDED);
}

TEST_F(SchedulerTest, ShortJobsRunBesideTraining) {
  Start(1);
  const std::string train = Submit();
  AwaitState(train, v1::RUNNING);
  v1::JobSpec verify;
  verify.mutable_verify()->set_dataset("a");
  const std::string one = Submit(verify), two = Submit(verify);
  AwaitState(one, v1::RUNNING);
  EXPECT_EQ(StateOf(two), v1::QUEUED) << "one short job at a time";
  runner_.Succeed(one);
  AwaitState(two, v1::RUNNING);
  runner_.Succeed(two);
  AwaitState(two, v1::SUCCEEDED);
  EXPECT_EQ(StateOf(train), v1::RUNNING);
}

TEST_F(SchedulerTest, AHigherPriorityRunsFirst) {
  Start(1);
  const std::string one = Submit();
  AwaitState(one, v1::RUNNING);
  const std::string two = Submit();
  const std::string urgent = Submit(Spec("a"), 5);
  runner_.Succeed(one);
  AwaitState(urgent, v1::RUNNING);
  EXPECT_EQ(StateOf(two), v1::QUEUED);
  EXPECT_EQ(store_->Get(urgent)->priority(), 5);
}

// Makes a job fail `times` times in a way that may pass, and then succeed.
FakeRunner::Result FailFor(int times, const absl::Status& status) {
  return [times, status]() mutable -> absl::StatusOr<v1::JobReport> {
    if (times-- > 0) return status;
    return v1::JobReport();
  };
}

TEST_F(SchedulerTest, RunningToWaitingAndOnToSucceeded) {
  Start(1);
  const std::string id = Submit();
  runner_.Finish(id, FailFor(3, absl::UnavailableError("/d/f: EIO")));
  AwaitState(id, v1::SUCCEEDED);
  std::vector<std::string> states;
  const EventBatch events = *store_->ReadEvents(id, 1, 100);
  for (const v1::JobEvent& event : events.events) {
    states.push_back(absl::StrCat(v1::JobState_Name(event.state().state()),
                                  event.state().waiting_reason()));
  }
  const std::string waiting = "WAITINGdisk: /d/f: EIO";
  EXPECT_THAT(states, ElementsAre("QUEUED", "PREPARING", "RUNNING", waiting,
                                  "PREPARING", "RUNNING", waiting, "PREPARING",
                                  "RUNNING", waiting, "PREPARING", "RUNNING",
                                  "SUCCEEDED"));
  EXPECT_EQ(store_->Get(id)->waiting_reason(), "");
  EXPECT_FALSE(store_->Get(id)->has_error());
}

TEST_F(SchedulerTest, WaitingToCancelled) {
  pause_seconds_ = 3600;
  Start(1);
  const std::string id = Submit(), next = Submit();
  runner_.Finish(id, FailFor(1, absl::UnavailableError("/d/f: EIO")));
  AwaitState(id, v1::WAITING);
  EXPECT_EQ(store_->Get(id)->waiting_reason(), "disk: /d/f: EIO");
  AwaitState(next, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(StateOf(id), v1::CANCELLED);
}

TEST_F(SchedulerTest, AWaitEndsWhenTheClientAsks) {
  std::atomic<bool> asks = false;
  client_waits_ = [&](const std::string& /*id*/) { return asks.load(); };
  wait_limit_seconds_ = 0;
  Start(1);
  const std::string id = Submit();
  runner_.Finish(id, FailFor(2, WaitForClientError("asks for nothing")));
  AwaitState(id, v1::WAITING);
  EXPECT_EQ(store_->Get(id)->waiting_reason(), "client: asks for nothing");
  // Others have its place.
  const std::string other = Submit();
  runner_.Succeed(other);
  AwaitState(other, v1::SUCCEEDED);
  EXPECT_EQ(StateOf(id), v1::WAITING);
  asks = true;
  scheduler_->Wake();
  AwaitState(id, v1::SUCCEEDED);
}

TEST_F(SchedulerTest, AWaitEndsWhenSpaceIsThere) {
  pause_seconds_ = 3600;
  Start(1);
  const std::string id = Submit();
  runner_.Finish(id, FailFor(1, ErrnoStatus(ENOSPC, "/d/f", "writing")));
  AwaitState(id, v1::WAITING);
  EXPECT_THAT(store_->Get(id)->waiting_reason(), HasSubstr("disk space: /d/f"));
  scheduler_->RetryNow(WaitCause::kDiskSpace);
  AwaitState(id, v1::SUCCEEDED);
}

TEST_F(SchedulerTest, AWaitEndsWhenAPlanIsLetGo) {
  pause_seconds_ = 3600;
  Start(1);
  std::optional<plan::PlanLease> held = *plans_.Take("a-f-1", {});
  ASSERT_TRUE(held->MakeRoom(80'000).ok());
  const std::string id = Submit();
  int runs = 0;
  runner_.Finish(id, [&]() -> absl::StatusOr<v1::JobReport> {
    ++runs;
    auto own = plans_.Take("a-f-2", {});
    const absl::Status status = own->MakeRoom(30'000);
    if (!status.ok()) return status;
    return v1::JobReport();
  });
  AwaitState(id, v1::WAITING);
  EXPECT_THAT(store_->Get(id)->waiting_reason(), HasSubstr("plan space: "));
  held.reset();
  AwaitState(id, v1::SUCCEEDED);
  EXPECT_EQ(runs, 2) << "its own lease is no reason to try again";
}

TEST_F(SchedulerTest, AWaitEndsWhenMemoryIsGivenBack) {
  pause_seconds_ = 3600;
  Start(1);
  strategy::MemoryEstimate estimate;
  estimate.Add("batches", 80);
  job::MemoryLedger::Reservation held;
  ASSERT_TRUE(memory_.Reserve(estimate, held).ok());
  const std::string id = Submit();
  runner_.Finish(id, [this, estimate]() -> absl::StatusOr<v1::JobReport> {
    job::MemoryLedger::Reservation own;
    const absl::Status status = memory_.Reserve(estimate, own);
    if (!status.ok()) return status;
    return v1::JobReport();
  });
  AwaitState(id, v1::WAITING);
  EXPECT_THAT(store_->Get(id)->waiting_reason(), HasSubstr("memory: "));
  held = {};
  AwaitState(id, v1::SUCCEEDED);
}

TEST_F(SchedulerTest, AWaitForADiskComesToAnEnd) {
  wait_limit_seconds_ = 0.05;
  Start(1);
  const std::string id = Submit();
  runner_.Finish(id, [] { return absl::UnavailableError("/d/f: EIO"); });
  AwaitState(id, v1::FAILED);
  EXPECT_EQ(store_->Get(id)->error().code(),
            static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_THAT(store_->Get(id)->error().message(),
              HasSubstr("/d/f: EIO; it did not come back within 50ms"));
}

TEST_F(SchedulerTest, AWaitingJobRunsAfterARestart) {
  pause_seconds_ = 3600;
  Start(1);
  const std::string id = Submit();
  runner_.Finish(id, FailFor(1, absl::UnavailableError("/d/f: EIO")));
  AwaitState(id, v1::WAITING);
  scheduler_.reset();
  EXPECT_EQ(StateOf(id), v1::WAITING);
  ASSERT_TRUE(store_->RecoverInterrupted(3).ok());
  Start(1);
  AwaitState(id, v1::SUCCEEDED);
}

v1::JobSpec ModelSpec(const std::string& dataset, uint32_t epochs = 2) {
  v1::JobSpec spec = Spec(dataset);
  v1::DataSpec& data = *spec.mutable_train()->mutable_data();
  data.set_epochs(epochs);
  data.set_distinct_epochs(2);
  data.mutable_memory();
  spec.mutable_train()->add_trains()->mutable_sage();
  return spec;
}

TEST_F(SchedulerTest, JobsWithEqualDataTakeOnePlace) {
  shared_passes_ = std::make_unique<job::SharedPassGroups>(
      job::SharedPassOptions{.max_jobs = kMembers}, nullptr);
  Start(1);
  const std::string first = Submit(ModelSpec("a"));
  const std::string other = Submit(ModelSpec("b"));
  AwaitState(first, v1::RUNNING);
  // The job overtakes the other one, which needs a place.
  const std::string second = Submit(ModelSpec("a", 9));
  AwaitState(second, v1::RUNNING);
  const std::string third = Submit(ModelSpec("a"));
  runner_.Succeed(first);
  AwaitState(first, v1::SUCCEEDED);
  AwaitState(third, v1::RUNNING);
  EXPECT_EQ(StateOf(other), v1::QUEUED);
  runner_.Succeed(second);
  runner_.Succeed(third);
  AwaitState(other, v1::RUNNING);
  runner_.Succeed(other);
  AwaitState(other, v1::SUCCEEDED);
  EXPECT_THAT(runner_.started(), ElementsAre(first, second, third, other));
}

TEST_F(SchedulerTest, AMemberMayGetAPlaceOfItsOwnIfOneIsFree) {
  shared_passes_ = std::make_unique<job::SharedPassGroups>(
      job::SharedPassOptions{.max_jobs = kMembers}, nullptr);
  Start(2);
  const std::string stays = Submit(ModelSpec("a"));
  const std::string leaves = Submit(ModelSpec("a"));
  AwaitState(stays, v1::RUNNING);
  AwaitState(leaves, v1::RUNNING);
  EXPECT_TRUE(scheduler_->GivePlace(leaves));
  EXPECT_FALSE(scheduler_->GivePlace(stays)) << "both places are taken";
  const std::string other = Submit(ModelSpec("b"));
  runner_.Succeed(leaves);
  AwaitState(other, v1::RUNNING);
  EXPECT_EQ(StateOf(stays), v1::RUNNING);
  runner_.Succeed(stays);
  runner_.Succeed(other);
  AwaitState(other, v1::SUCCEEDED);
}

v1::JobSpec PlannedSpec(const std::string& dataset) {
  v1::JobSpec spec = ModelSpec(dataset);
  spec.mutable_train()->mutable_data()->mutable_diskgnn();
  return spec;
}

TEST_F(SchedulerTest, ThePlanOfTheNextJobIsMadeWhileOneTrains) {
  Start(1);
  const std::string first = Submit(PlannedSpec("a"));
  AwaitState(first, v1::RUNNING);
  const std::string next = Submit(PlannedSpec("b"));
  const std::string last = Submit(PlannedSpec("c"));
  EXPECT_THAT(runner_.AwaitPrepared(1), ElementsAre(next));
  runner_.CompletePlan(next);
  // The job's log mentions the plan.
  while (store_->ReadEvents(next, 1, 10)->events.size() < 2) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const v1::JobEvent made = store_->ReadEvents(next, 1, 10)->events[1];
  EXPECT_THAT(made.log().text(), HasSubstr("plan diskgnn-a-b was made ahead"));
  // Only one plan is made ahead at a time.
  EXPECT_THAT(runner_.AwaitPrepared(1), SizeIs(1));
  runner_.Succeed(first);
  AwaitState(next, v1::RUNNING);
  EXPECT_THAT(runner_.AwaitPrepared(2), ElementsAre(next, last));
  // The job begins before its plan is complete.
  runner_.Succeed(next);
  AwaitState(last, v1::RUNNING);
  runner_.CompletePlan(last);
  runner_.Succeed(last);
  AwaitState(last, v1::SUCCEEDED);
  EXPECT_THAT(runner_.AwaitPrepared(2), SizeIs(2));
}

TEST_F(SchedulerTest, NoPlanIsMadeAheadForAJobThatNeedsNoneOrSharesAPass) {
  shared_passes_ = std::make_unique<job::SharedPassGroups>(
      job::SharedPassOptions{.max_jobs = kMembers}, nullptr);
  Start(1);
  const std::string first = Submit(PlannedSpec("a"));
  AwaitState(first, v1::RUNNING);
  const std::string member = Submit(PlannedSpec("a"));
  AwaitState(member, v1::RUNNING);
  const std::string waits = Submit(PlannedSpec("a"));
  const std::string plain = Submit(ModelSpec("b"));
  const std::string behind = Submit(PlannedSpec("c"));
  // The plain job is next, but needs no plan.
  ASSERT_TRUE(scheduler_->Cancel(plain).ok());
  EXPECT_THAT(runner_.AwaitPrepared(1), ElementsAre(behind));
}

TEST_F(SchedulerTest, APlanIsNotMadeForAJobThatIsCancelled) {
  Start(1);
  const std::string first = Submit(PlannedSpec("a"));
  AwaitState(first, v1::RUNNING);
  const std::string next = Submit(PlannedSpec("b"));
  EXPECT_THAT(runner_.AwaitPrepared(1), ElementsAre(next));
  const std::string same = Submit(PlannedSpec("b"));
  ASSERT_TRUE(scheduler_->Cancel(next).ok());
  // Another job has the same data.
  EXPECT_THAT(runner_.AwaitPrepared(2), ElementsAre(next, same));
}

TEST_F(SchedulerTest, APlanIsGivenUpWhenItsJobHasBegunAndIsCancelled) {
  Start(1);
  const std::string first = Submit(PlannedSpec("a"));
  AwaitState(first, v1::RUNNING);
  const std::string next = Submit(PlannedSpec("b"));
  EXPECT_THAT(runner_.AwaitPrepared(1), ElementsAre(next));
  runner_.Succeed(first);
  AwaitState(next, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Cancel(next).ok());
  runner_.AwaitPlansGivenUp(1);
  AwaitState(next, v1::CANCELLED);
}

TEST_F(SchedulerTest, AStopEndsWhatIsMadeAhead) {
  Start(1);
  const std::string first = Submit(PlannedSpec("a"));
  AwaitState(first, v1::RUNNING);
  const std::string next = Submit(PlannedSpec("b"));
  EXPECT_THAT(runner_.AwaitPrepared(1), ElementsAre(next));
  EXPECT_TRUE(scheduler_->Stop(absl::InfiniteDuration()).ok());
  scheduler_.reset();
  EXPECT_EQ(StateOf(next), v1::QUEUED);
}

}  // namespace
}  // namespace hearth::server
