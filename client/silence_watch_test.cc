#include "client/silence_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace hearth::client {
namespace {

using ::testing::ElementsAre;

// Notes the notices, and waits for them.
class Notices {
 public:
  SilenceWatch::Notice Taker() {
    return [this](absl::Duration silent) {
      absl::MutexLock lock(&mutex_);
      notices_.push_back(silent > absl::ZeroDuration());
      changed_.SignalAll();
    };
  }
  std::vector<bool> Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    while (notices_.size() < count) changed_.Wait(&mutex_);
    return notices_;
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<bool> notices_ ABSL_GUARDED_BY(mutex_);
};

TEST(SilenceWatchTest, TellsOnceAndWhenItIsOver) {
  Notices notices;
  SilenceWatch watch(absl::Milliseconds(1), notices.Taker());
  watch.Lost(absl::ZeroDuration());
  EXPECT_THAT(notices.Await(1), ElementsAre(true));
  watch.Lost(absl::ZeroDuration());
  watch.Heard();
  EXPECT_THAT(notices.Await(2), ElementsAre(true, false));
  watch.Heard();
  watch.Lost(absl::ZeroDuration());
  EXPECT_THAT(notices.Await(3), ElementsAre(true, false, true));
}

TEST(SilenceWatchTest, AShortSilenceIsNotTold) {
  Notices notices;
  SilenceWatch watch(absl::Hours(1), notices.Taker());
  watch.Lost(absl::ZeroDuration());
  watch.Heard();
  watch.Lost(absl::Hours(2));
  EXPECT_THAT(notices.Await(1), ElementsAre(true)) << "the second alone";
}

TEST(SilenceWatchTest, NeedsNoNotice) {
  SilenceWatch watch(absl::Milliseconds(1), nullptr);
  watch.Lost(absl::Hours(1));
  watch.Heard();
}

}  // namespace
}  // namespace hearth::client
