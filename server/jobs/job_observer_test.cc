#include "server/jobs/job_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hearth::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::FromUnixSeconds(1'000'000) + absl::Seconds(seconds);
  }
  double SteadySeconds() const override { return seconds; }
  double seconds = 100;
};

class RecordedEvents final : public JobEvents {
 public:
  void OnRunning() override { ++running; }
  void Append(const v1::JobEvent& event) override { events.push_back(event); }
  absl::Status OnEpoch(const v1::EpochReport& epoch) override {
    epochs.push_back(epoch);
    return absl::UnavailableError("no disk");
  }
  absl::Status OnFirstEpochKey(uint32_t key) override {
    first_epoch_key = key;
    return absl::OkStatus();
  }
  void OnDurable() override { ++durable; }
  int running = 0;
  int durable = 0;
  uint32_t first_epoch_key = 0;
  std::vector<v1::JobEvent> events;
  std::vector<v1::EpochReport> epochs;
};

job::Progress Training(uint64_t done) {
  job::Progress progress;
  progress.phase = "training";
  progress.done = done;
  return progress;
}

TEST(JobObserverTest, ProgressIsPassedOnTwiceASecond) {
  ManualClock clock;
  RecordedEvents events;
  const auto registry = metrics::NewRegistry();
  JobObserver observer(events, clock, *registry, {.id = "train-1"});
  for (uint64_t i = 0; i < 40; ++i) {
    observer.OnProgress(Training(i));
    clock.seconds += 0.0625;
  }
  ASSERT_EQ(events.events.size(), 5u);
  EXPECT_EQ(events.events[0].progress().done(), 0u);
  EXPECT_EQ(events.events[1].progress().done(), 8u);
}

TEST(JobObserverTest, EverythingElseIsPassedOnAlways) {
  ManualClock clock;
  RecordedEvents events;
  const auto registry = metrics::NewRegistry();
  JobObserver observer(events, clock, *registry, {.id = "train-1"});
  observer.OnRunning();
  observer.OnProgress(Training(0));
  job::EpochReport epoch;
  epoch.epoch = 2;
  EXPECT_EQ(observer.OnEpoch(epoch), absl::UnavailableError("no disk"));
  observer.OnDurable();
  observer.OnLog(job::Severity::kWarning, "careful");
  EXPECT_EQ(events.running, 1);
  EXPECT_EQ(events.durable, 1);
  ASSERT_EQ(events.epochs.size(), 1u);
  EXPECT_EQ(events.epochs[0].epoch(), 2u);
  ASSERT_EQ(events.events.size(), 2u);
  EXPECT_EQ(events.events[1].log().text(), "careful");
  EXPECT_EQ(events.events[1].log().severity(), v1::LogLine::WARNING);
}

TEST(JobObserverTest, SeriesTellWhenAJobLastGotOnUntilItEnds) {
  ManualClock clock;
  RecordedEvents events;
  const auto registry = metrics::NewRegistry();
  const std::string progress =
      "hearth_job_last_progress_timestamp_seconds{job=\"train-1\"} ";
  const std::string checkpoint =
      "hearth_job_last_checkpoint_timestamp_seconds{job=\"train-1\"} ";
  {
    JobObserver observer(events, clock, *registry,
                         {.id = "train-1", .has_checkpoints = true});
    EXPECT_THAT(registry->Text(), HasSubstr(progress + "1000100\n"));
    EXPECT_THAT(registry->Text(), HasSubstr(checkpoint + "1000100\n"));
    clock.seconds += 60;
    observer.OnProgress(Training(1));
    clock.seconds += 60;
    observer.OnDurable();
    EXPECT_THAT(registry->Text(), HasSubstr(progress + "1000160\n"));
    EXPECT_THAT(registry->Text(), HasSubstr(checkpoint + "1000220\n"));
  }
  EXPECT_EQ(registry->Text(), "");
  const JobObserver import(events, clock, *registry, {.id = "import-2"});
  EXPECT_THAT(registry->Text(), Not(HasSubstr("checkpoint")));
}

}  // namespace
}  // namespace hearth::server
