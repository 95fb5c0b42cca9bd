#include "server/jobs/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/plan/plan_store.h"
#include "engine/strategy/memory_budget.h"
#include "server/storage/job_rows.h"
#include "server/storage/sqlite.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

v1::JobSpec Spec(const std::string& dataset) {
  v1::JobSpec spec;
  spec.mutable_train()->mutable_data()->set_dataset(dataset);
  return spec;
}

// Runs jobs as the test says: each waits, once RUNNING, until the test gives it
// a result or somebody wants it to stop.
class FakeRunner final : public JobRunner {
 public:
  using Result = std::function<absl::StatusOr<v1::JobReport>()>;

  absl::StatusOr<v1::JobReport> Run(const v1::Job& job, JobEvents& events,
                                    std::stop_token stop) override {
    {
      absl::MutexLock lock(&mutex_);
      started_.push_back(job.id());
      stopped_.erase(job.id());
      changed_.SignalAll();
    }
    events.OnRunning();
    if (!job.sweep().empty()) {
      v1::EpochReport epoch;
      epoch.set_epoch(1);
      const absl::Status reported = events.OnEpoch(epoch);
      if (!reported.ok()) return reported;
    }
    // A deaf job goes on when it is asked to stop.
    const bool deaf = job.spec().train().data().dataset() == "deaf";
    const std::stop_callback wake(stop, [this, &job, deaf] {
      absl::MutexLock lock(&mutex_);
      if (!deaf) stopped_.insert(job.id());
      changed_.SignalAll();
    });
    absl::MutexLock lock(&mutex_);
    while (!results_.contains(job.id()) && !stopped_.contains(job.id())) {
      changed_.Wait(&mutex_);
    }
    const auto found = results_.find(job.id());
    if (found == results_.end()) return absl::CancelledError("stopped");
    return found->second();
  }

  void Discard(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    discarded_.push_back(id);
  }

  // Lasts until the test completes it or somebody wants it to stop.
  absl::StatusOr<v1::PrepareReport> PrepareAhead(
      const v1::Job& job, std::stop_token stop) override {
    const std::stop_callback wake(stop, [this] {
      absl::MutexLock lock(&mutex_);
      changed_.SignalAll();
    });
    absl::MutexLock lock(&mutex_);
    prepared_.push_back(job.id());
    changed_.SignalAll();
    while (!complete_.contains(job.id()) && !stop.stop_requested()) {
      changed_.Wait(&mutex_);
    }
    if (!complete_.contains(job.id())) {
      ++plans_given_up_;
      changed_.SignalAll();
      return absl::CancelledError("stopped");
    }
    v1::PrepareReport report;
    report.mutable_preparation()->set_plan("diskgnn-a-b");
    return report;
  }

  void CompletePlan(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    complete_.insert(id);
    changed_.SignalAll();
  }

  void AwaitPlansGivenUp(int plans) {
    absl::MutexLock lock(&mutex_);
    while (plans_given_up_ < plans) changed_.Wait(&mutex_);
  }

  // The jobs whose plans were made ahead, once there are so many.
  std::vector<std::string> AwaitPrepared(size_t jobs) {
    absl::MutexLock lock(&mutex_);
    while (prepared_.size() < jobs) changed_.Wait(&mutex_);
    return prepared_;
  }

  void Finish(const std::string& id, Result result) {
    absl::MutexLock lock(&mutex_);
    results_[id] = std::move(result);
    changed_.SignalAll();
  }
  void Succeed(const std::string& id) {
    Finish(id, [] { return v1::JobReport(); });
  }

  void AwaitStarted(size_t jobs) {
    absl::MutexLock lock(&mutex_);
    while (started_.size() < jobs) changed_.Wait(&mutex_);
  }

  std::vector<std::string> discarded() {
    absl::MutexLock lock(&mutex_);
    return discarded_;
  }

  std::vector<std::string> started() {
    absl::MutexLock lock(&mutex_);
    return started_;
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<std::string> started_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> discarded_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> prepared_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> complete_ ABSL_GUARDED_BY(mutex_);
  int plans_given_up_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> stopped_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Result> results_ ABSL_GUARDED_BY(mutex_);
};

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::remove(absl::StrCat(path_, suffix).c_str());
    }
    auto store = JobStore::Open(io::FileSystem::Posix(), path_, Clock::Real(),
                                [this](const auto&) {
                                  absl::MutexLock lock(&mutex_);
                                  ++events_;
                                  new_event_.SignalAll();
                                });
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  void Start(int max_running_jobs) {
    scheduler_.emplace(
        *store_, runner_, memory_, plans_, Clock::Real(),
        SchedulerOptions{.max_running_jobs = max_running_jobs,
                         .max_short_jobs = 1,
                         .convoys = convoys_.get(),
                         .wait = {.first_pause_seconds = pause_seconds_,
                                  .limit_seconds = wait_limit_seconds_},
                         .retry_interval = absl::Milliseconds(1)});
    scheduler_->Load(*store_->Unended());
    scheduler_->Start();
  }

  std::string Submit(const std::string& dataset = "a") {
    return Submit(Spec(dataset));
  }
  std::string Submit(const v1::JobSpec& spec, int priority = 0) {
    const v1::Job job = *store_->Submit("", spec, priority);
    scheduler_->Enqueue(job);
    return job.id();
  }

  v1::JobState StateOf(const std::string& id) {
    return store_->Get(id)->state();
  }

  // Blocks until the job is in `state`.
  void AwaitState(const std::string& id, v1::JobState state) {
    while (true) {
      int seen;
      {
        absl::MutexLock lock(&mutex_);
        seen = events_;
      }
      if (StateOf(id) == state) return;
      absl::MutexLock lock(&mutex_);
      while (events_ == seen) new_event_.Wait(&mutex_);
    }
  }

  const std::string path_ = absl::StrCat(
      testing::TempDir(), "/scheduler_",
      testing::UnitTest::GetInstance()->current_test_info()->name(), ".db");
  absl::Mutex mutex_;
  absl::CondVar new_event_;
  int events_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<JobStore> store_;
  static constexpr int kMembers = 2;
  std::unique_ptr<job::Convoys> convoys_;
  FakeRunner runner_;
  job::MemoryLedger memory_{
      100, {.available = [] { return 0; }, .used = [] { return 0; }}};
  const io::ScratchDirectory scratch_;
  plan::PlanStore plans_{
      io::FileSystem::Posix(),
      Clock::Real(),
      {.folder = scratch_.Path("plans"), .space_bytes = 100'000}};
  double pause_seconds_ = 0.001;
  double wait_limit_seconds_ = 3600;
  std::optional<Scheduler> scheduler_;
};

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
  // It stays where the job goes on later.
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

// Makes every change of a job's row fail, as a full disk would.
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

// Lets a job fail in a way that may pass, `times` times, and then succeed.
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
  convoys_ = std::make_unique<job::Convoys>(
      job::ConvoyOptions{.max_members = kMembers}, nullptr);
  Start(1);
  const std::string first = Submit(ModelSpec("a"));
  const std::string other = Submit(ModelSpec("b"));
  AwaitState(first, v1::RUNNING);
  // It overtakes the other one, which needs a place.
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
  convoys_ = std::make_unique<job::Convoys>(
      job::ConvoyOptions{.max_members = kMembers}, nullptr);
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
  // Its log tells of it.
  while (store_->ReadEvents(next, 1, 10)->events.size() < 2) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const v1::JobEvent made = store_->ReadEvents(next, 1, 10)->events[1];
  EXPECT_THAT(made.log().text(), HasSubstr("plan diskgnn-a-b was made ahead"));
  // One plan is made ahead, and no more.
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
  convoys_ = std::make_unique<job::Convoys>(
      job::ConvoyOptions{.max_members = kMembers}, nullptr);
  Start(1);
  const std::string first = Submit(PlannedSpec("a"));
  AwaitState(first, v1::RUNNING);
  const std::string member = Submit(PlannedSpec("a"));
  AwaitState(member, v1::RUNNING);
  const std::string waits = Submit(PlannedSpec("a"));
  const std::string plain = Submit(ModelSpec("b"));
  const std::string behind = Submit(PlannedSpec("c"));
  // The plain one is next, but needs no plan.
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
  // Its data are another one's, too.
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

// Says of each epoch what the test wants, and hears ends.
class FakeObserver final : public TrialObserver {
 public:
  // `on_epoch` is called before the verdict is heard of, and `on_ended` while
  // the scheduler still has the job.
  explicit FakeObserver(
      EpochVerdict verdict,
      std::function<void(const std::string&)> on_epoch = [](const auto&) {},
      std::function<void(const std::string&)> on_ended = [](const auto&) {})
      : verdict_(verdict),
        on_epoch_(std::move(on_epoch)),
        on_ended_(std::move(on_ended)) {}

  std::vector<std::string> OnEpochs(
      absl::Span<EpochOfJob* const> epochs) override {
    for (EpochOfJob* epoch : epochs) {
      EXPECT_EQ(epoch->job.trial(), 5u);
      on_epoch_(epoch->job.id());
      epoch->verdict = verdict_;
    }
    return {};
  }
  void OnEnded(const std::string& id) override {
    on_ended_(id);
    absl::MutexLock lock(&mutex_);
    ended_.push_back(id);
  }
  std::vector<std::string> ended() {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

 private:
  const EpochVerdict verdict_;
  const std::function<void(const std::string&)> on_epoch_;
  const std::function<void(const std::string&)> on_ended_;
  absl::Mutex mutex_;
  std::vector<std::string> ended_ ABSL_GUARDED_BY(mutex_);
};

class HoldTest : public SchedulerTest {
 protected:
  void SetHeld(const std::string& id, bool held) {
    const absl::Status status =
        store_->Transact([&](Database&, JobRows& rows, ChangedJobs&) {
          return rows.SetHeld(id, held);
        });
    EXPECT_TRUE(status.ok()) << status;
  }

  std::string SubmitTrial() {
    std::string id;
    const absl::Status status = store_->Transact(
        [&](Database&, JobRows& rows, ChangedJobs&) -> absl::Status {
          auto added =
              rows.Insert("", Spec("a"), 0, TrialOf{.sweep = 1, .trial = 5});
          id = added.value_or("");
          return added.status();
        });
    EXPECT_TRUE(status.ok()) << status;
    return id;
  }
};

TEST_F(HoldTest, ARunningJobIsQueuedAndNotRunUntilItIsReleased) {
  Start(1);
  const std::string held = Submit();
  AwaitState(held, v1::RUNNING);
  SetHeld(held, true);
  scheduler_->Hold(held);
  const std::string other = Submit();
  AwaitState(other, v1::RUNNING);
  EXPECT_EQ(StateOf(held), v1::QUEUED);
  // As long as the store has it as held, nothing happens.
  ASSERT_TRUE(scheduler_->Release({held}).ok());
  runner_.Succeed(other);
  AwaitState(other, v1::SUCCEEDED);
  EXPECT_EQ(StateOf(held), v1::QUEUED);
  SetHeld(held, false);
  ASSERT_TRUE(scheduler_->Release({held}).ok());
  AwaitState(held, v1::RUNNING);
  runner_.Succeed(held);
  AwaitState(held, v1::SUCCEEDED);
  EXPECT_THAT(runner_.started(), ElementsAre(held, other, held));
  // One that has ended stays so.
  EXPECT_TRUE(scheduler_->Release({held}).ok());
  EXPECT_EQ(StateOf(held), v1::SUCCEEDED);
}

TEST_F(HoldTest, AQueuedJobIsPassedOverAndCanBeCancelled) {
  Start(1);
  const std::string running = Submit(), held = Submit(), last = Submit();
  AwaitState(running, v1::RUNNING);
  SetHeld(held, true);
  scheduler_->Hold(held);
  runner_.Succeed(running);
  AwaitState(last, v1::RUNNING);
  ASSERT_TRUE(scheduler_->Cancel(held).ok());
  EXPECT_EQ(StateOf(held), v1::CANCELLED);
  runner_.Succeed(last);
  AwaitState(last, v1::SUCCEEDED);
}

TEST_F(HoldTest, ARestartDoesNotRunWhatIsHeld) {
  const std::string held = store_->Submit("", Spec("a"))->id();
  const std::string other = store_->Submit("", Spec("a"))->id();
  SetHeld(held, true);
  Start(2);
  AwaitState(other, v1::RUNNING);
  EXPECT_EQ(StateOf(held), v1::QUEUED);
  EXPECT_THAT(runner_.started(), ElementsAre(other));
}

TEST_F(HoldTest, ADrainSetsAsideWhatSweepsBegin) {
  Start(1);
  const std::string running = Submit();
  AwaitState(running, v1::RUNNING);
  const std::string queued = SubmitTrial(), later = SubmitTrial();
  const std::string cancelled = SubmitTrial(), held = SubmitTrial();
  ASSERT_TRUE(scheduler_->Release({queued, cancelled, held}).ok());
  const std::string other = Submit();
  scheduler_->SetDraining(true);
  ASSERT_TRUE(scheduler_->Release({later}).ok());
  for (const std::string& id : {queued, later, cancelled, held}) {
    EXPECT_TRUE(scheduler_->IsSetAside(id)) << id;
  }
  EXPECT_FALSE(scheduler_->IsSetAside(other));
  ASSERT_TRUE(scheduler_->Cancel(cancelled).ok());
  SetHeld(held, true);
  scheduler_->Hold(held);
  runner_.Succeed(running);
  AwaitState(other, v1::RUNNING);
  runner_.Succeed(other);
  AwaitState(other, v1::SUCCEEDED);
  EXPECT_EQ(StateOf(queued), v1::QUEUED);
  scheduler_->SetDraining(false);
  runner_.Succeed(queued);
  runner_.Succeed(later);
  AwaitState(queued, v1::SUCCEEDED);
  AwaitState(later, v1::SUCCEEDED);
  EXPECT_EQ(StateOf(cancelled), v1::CANCELLED);
  EXPECT_EQ(StateOf(held), v1::QUEUED);
}

TEST_F(HoldTest, AnEpochsVerdictStopsTheTrialAtOnce) {
  FakeObserver observer(EpochVerdict::kCancel);
  Start(1);
  scheduler_->SetTrialObserver(&observer);
  const std::string trial = SubmitTrial();
  ASSERT_TRUE(scheduler_->Release({trial}).ok());
  AwaitState(trial, v1::CANCELLED);
  // Its observer hears of it before the scheduler lets it go.
  ASSERT_TRUE(scheduler_->Stop(absl::InfiniteDuration()).ok());
  EXPECT_THAT(observer.ended(), ElementsAre(trial));
  scheduler_->SetTrialObserver(nullptr);
}

TEST_F(HoldTest, AnEpochsVerdictHoldsTheTrial) {
  FakeObserver observer(EpochVerdict::kHold,
                        [this](const std::string& id) { SetHeld(id, true); });
  Start(1);
  scheduler_->SetTrialObserver(&observer);
  const std::string trial = SubmitTrial();
  ASSERT_TRUE(scheduler_->Release({trial}).ok());
  runner_.AwaitStarted(1);
  AwaitState(trial, v1::QUEUED);
  scheduler_->SetTrialObserver(nullptr);
}

TEST_F(HoldTest, ATrialCancelledOnceItIsPutBackDoesNotStayQueued) {
  FakeObserver observer(
      EpochVerdict::kHold, [this](const std::string& id) { SetHeld(id, true); },
      [this](const std::string& id) {
        scheduler_->SetTrialObserver(nullptr);
        EXPECT_EQ(store_->Get(id)->state(), v1::QUEUED);
        EXPECT_TRUE(scheduler_->Cancel(id).ok());
      });
  Start(1);
  scheduler_->SetTrialObserver(&observer);
  const std::string trial = SubmitTrial();
  ASSERT_TRUE(scheduler_->Release({trial}).ok());
  AwaitState(trial, v1::CANCELLED);
}

TEST_F(HoldTest, ATrialReleasedBeforeItsVerdictIsHeardRunsAgain) {
  FakeObserver observer(EpochVerdict::kHold, [this](const std::string& id) {
    scheduler_->SetTrialObserver(nullptr);
    EXPECT_TRUE(scheduler_->Release({id}).ok());
  });
  Start(1);
  scheduler_->SetTrialObserver(&observer);
  const std::string trial = SubmitTrial();
  ASSERT_TRUE(scheduler_->Release({trial}).ok());
  runner_.AwaitStarted(2);
  runner_.Succeed(trial);
  AwaitState(trial, v1::SUCCEEDED);
}

}  // namespace
}  // namespace hearth::server
