#include "server/jobs/event_hub.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/clock.h"

namespace hearth::server {
namespace {

// Counts its pumps; leaves after `wanted` pumps or when the hub stops.
class CountingWatcher final : public Watcher {
 public:
  explicit CountingWatcher(int wanted) : wanted_(wanted) {}

  bool Pump(bool stopping) override {
    absl::MutexLock lock(&mutex_);
    ++pumps_;
    stopped_ |= stopping;
    pumped_.SignalAll();
    return !stopping && pumps_ < wanted_;
  }

  void AwaitPumps(int pumps) {
    absl::MutexLock lock(&mutex_);
    while (pumps_ < pumps) pumped_.Wait(&mutex_);
  }

  bool stopped() {
    absl::MutexLock lock(&mutex_);
    return stopped_;
  }

  int pumps() {
    absl::MutexLock lock(&mutex_);
    return pumps_;
  }

 private:
  const int wanted_;
  absl::Mutex mutex_;
  absl::CondVar pumped_;
  int pumps_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST(EventHubTest, AWatcherIsWokenOnceAtTheLastTimeItWasGiven) {
  EventHub hub;
  const auto watcher = std::make_shared<CountingWatcher>(100);
  hub.Add("train-1", watcher);
  watcher->AwaitPumps(1);
  const double now = Clock::Real().SteadySeconds();
  hub.WakeAt(watcher.get(), now + 3600);
  hub.WakeAt(watcher.get(), now + 0.01);
  watcher->AwaitPumps(2);
  EXPECT_GE(Clock::Real().SteadySeconds(), now + 0.01);
  hub.WakeAt(watcher.get(), now);
  watcher->AwaitPumps(3);
  hub.WakeAt(watcher.get(), now + 3600);
  EXPECT_EQ(watcher->pumps(), 3);
}

TEST(EventHubTest, AWatcherIsPumpedWhenAddedAndAtEachEventOfItsJob) {
  EventHub hub;
  const auto mine = std::make_shared<CountingWatcher>(100);
  const auto other = std::make_shared<CountingWatcher>(100);
  hub.Add("train-1", mine);
  hub.Add("train-2", other);
  mine->AwaitPumps(1);
  other->AwaitPumps(1);
  for (int i = 0; i < 5; ++i) {
    hub.Notify("train-1");
    mine->AwaitPumps(2 + i);
  }
  hub.Notify("train-3");
  hub.Wake(mine.get());
  mine->AwaitPumps(7);
  EXPECT_EQ(other->pumps(), 1);
}

TEST(EventHubTest, AWatcherThatWantsNoMoreIsDropped) {
  EventHub hub;
  const auto watcher = std::make_shared<CountingWatcher>(1);
  const auto last = std::make_shared<CountingWatcher>(2);
  hub.Add("train-1", watcher);
  hub.Add("train-1", last);
  last->AwaitPumps(1);
  hub.Notify("train-1");
  last->AwaitPumps(2);
  hub.Wake(watcher.get());
  EXPECT_EQ(watcher->pumps(), 1);
}

TEST(EventHubTest, StopReachesAllAndThoseThatComeLater) {
  EventHub hub;
  std::vector<std::shared_ptr<CountingWatcher>> watchers;
  for (int i = 0; i < 100; ++i) {
    watchers.push_back(std::make_shared<CountingWatcher>(1000));
    hub.Add(absl::StrCat("train-", i % 3), watchers.back());
    watchers.back()->AwaitPumps(1);
  }
  hub.Stop();
  for (const auto& watcher : watchers) {
    watcher->AwaitPumps(2);
    EXPECT_TRUE(watcher->stopped());
  }
  const auto late = std::make_shared<CountingWatcher>(1000);
  hub.Add("train-1", late);
  late->AwaitPumps(1);
  EXPECT_TRUE(late->stopped());
}

// Blocks in its first pump until released.
class SlowWatcher final : public Watcher {
 public:
  bool Pump(bool) override {
    if (pumps_.fetch_add(1) == 0) {
      entered.Notify();
      leave.WaitForNotification();
      return true;
    }
    again.Notify();
    return false;
  }

  absl::Notification entered;
  absl::Notification leave;
  absl::Notification again;

 private:
  std::atomic<int> pumps_ = 0;
};

TEST(EventHubTest, AnEventDuringAPumpLeadsToAnother) {
  EventHub hub;
  const auto watcher = std::make_shared<SlowWatcher>();
  hub.Add("train-1", watcher);
  watcher->entered.WaitForNotification();
  hub.Notify("train-1");
  hub.Notify("train-1");
  watcher->leave.Notify();
  watcher->again.WaitForNotification();
}

TEST(EventHubTest, ManyThreadsMayNotifyAndAdd) {
  EventHub hub;
  const auto watcher = std::make_shared<CountingWatcher>(1 << 30);
  hub.Add("train-1", watcher);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&hub] {
      for (int i = 0; i < 500; ++i) {
        hub.Add("train-1", std::make_shared<CountingWatcher>(1));
        hub.Notify("train-1");
      }
    });
  }
  threads.clear();
  const int before = watcher->pumps();
  hub.Notify("train-1");
  watcher->AwaitPumps(before + 1);
  EXPECT_GE(hub.size(), 1);
}

}  // namespace
}  // namespace hearth::server
