#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/jobs/job_events.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/scheduler_fixture.h"
#include "server/storage/job_rows.h"
#include "server/storage/job_store.h"
#include "server/storage/sqlite.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;

// Decides after each epoch as the test wants, and hears of ends.
class FakeObserver final : public TrialObserver {
 public:
  // `on_epoch` is called before the decision is known, and `on_ended` while the
  // scheduler still has the job.
  explicit FakeObserver(
      EpochDecision decision,
      std::function<void(const std::string&)> on_epoch = [](const auto&) {},
      std::function<void(const std::string&)> on_ended = [](const auto&) {})
      : decision_(decision),
        on_epoch_(std::move(on_epoch)),
        on_ended_(std::move(on_ended)) {}

  std::vector<std::string> OnEpochs(
      absl::Span<EpochOfJob* const> epochs) override {
    for (EpochOfJob* epoch : epochs) {
      EXPECT_EQ(epoch->job.trial(), 5u);
      on_epoch_(epoch->job.id());
      epoch->decision = decision_;
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
  const EpochDecision decision_;
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
  // Nothing happens while the store has the job as held.
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
  // A job that has ended stays as it is.
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
  FakeObserver observer(EpochDecision::kCancel);
  Start(1);
  scheduler_->SetTrialObserver(&observer);
  const std::string trial = SubmitTrial();
  ASSERT_TRUE(scheduler_->Release({trial}).ok());
  AwaitState(trial, v1::CANCELLED);
  // The observer hears of the end before the scheduler removes the job.
  ASSERT_TRUE(scheduler_->Stop(absl::InfiniteDuration()).ok());
  EXPECT_THAT(observer.ended(), ElementsAre(trial));
  scheduler_->SetTrialObserver(nullptr);
}

TEST_F(HoldTest, AnEpochsVerdictHoldsTheTrial) {
  FakeObserver observer(EpochDecision::kHold,
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
      EpochDecision::kHold,
      [this](const std::string& id) { SetHeld(id, true); },
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
  FakeObserver observer(EpochDecision::kHold, [this](const std::string& id) {
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
