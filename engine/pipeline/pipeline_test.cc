#include "engine/pipeline/pipeline.h"

#include <atomic>
#include <memory>
#include <stop_token>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace hearth::pipeline {
namespace {

// Items count themselves, so that a leaked one shows.
class NumberItem final : public Item {
 public:
  NumberItem(int64_t number, std::atomic<int>& alive)
      : number_(number), alive_(alive) {
    ++alive_;
  }
  ~NumberItem() override { --alive_; }
  int64_t number() const { return number_; }
  std::vector<std::string> visits;

 private:
  const int64_t number_;
  std::atomic<int>& alive_;
};

NumberItem& AsNumber(Item& item) { return static_cast<NumberItem&>(item); }

// Time passes only when a test says so.
class ManualClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  double SteadySeconds() const override { return seconds_; }
  void Advance(double seconds) { seconds_ = seconds_ + seconds; }

 private:
  std::atomic<double> seconds_ = 0;
};

class PipelineTest
    : public ::testing::TestWithParam<std::tuple<int, int, int>> {
 protected:
  Stage VisitStage(const std::string& name) {
    const auto [width_a, width_b, capacity] = GetParam();
    return {.name = name,
            .width = name == "a" ? width_a : width_b,
            .queue_capacity = capacity,
            .work = [name](int, Item& item) {
              AsNumber(item).visits.push_back(name);
              return absl::OkStatus();
            }};
  }

  absl::Status Run(Pipeline& pipeline, int64_t num_items,
                   std::function<absl::Status(Item&)> sink,
                   std::stop_token stop = {}) {
    return pipeline.Run(
        num_items,
        [this](int64_t number) {
          return std::make_unique<NumberItem>(number, alive_);
        },
        sink, std::move(stop));
  }

  std::atomic<int> alive_ = 0;
};

TEST_P(PipelineTest, EveryItemPassesEveryStageInOrder) {
  const auto pipeline =
      NewPipeline({VisitStage("a"), VisitStage("b")}, "sink", Clock::Real());
  int64_t expected = 0;
  const absl::Status status = Run(*pipeline, 200, [&](Item& item) {
    EXPECT_EQ(AsNumber(item).number(), expected++);
    EXPECT_EQ(AsNumber(item).visits, (std::vector<std::string>{"a", "b"}));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(expected, 200);
  EXPECT_EQ(alive_, 0);
  for (const StageStats& stage : pipeline->Stats()) {
    EXPECT_EQ(stage.items, 200) << stage.name;
    EXPECT_EQ(stage.queue_length, 0) << stage.name;
  }
}

TEST_P(PipelineTest, NoItemsIsDoneAtOnce) {
  const auto pipeline =
      NewPipeline({VisitStage("a"), VisitStage("b")}, "sink", Clock::Real());
  EXPECT_TRUE(Run(*pipeline, 0, [](Item&) { return absl::OkStatus(); }).ok());
}

TEST_P(PipelineTest, AStagesErrorStopsEverything) {
  for (int64_t bad = 0; bad < 20; bad += 3) {
    Stage failing = VisitStage("b");
    failing.work = [bad](int, Item& item) {
      return AsNumber(item).number() == bad ? absl::DataLossError("bad item")
                                            : absl::OkStatus();
    };
    const auto pipeline =
        NewPipeline({VisitStage("a"), failing}, "sink", Clock::Real());
    int64_t seen = 0;
    const absl::Status status = Run(*pipeline, 20, [&](Item&) {
      ++seen;
      return absl::OkStatus();
    });
    EXPECT_EQ(status, absl::DataLossError("bad item"));
    EXPECT_LE(seen, bad);
    EXPECT_EQ(alive_, 0);
  }
}

TEST_P(PipelineTest, TheSinksErrorStopsEverything) {
  for (int64_t bad = 0; bad < 20; bad += 3) {
    const auto pipeline =
        NewPipeline({VisitStage("a"), VisitStage("b")}, "sink", Clock::Real());
    int64_t seen = 0;
    const absl::Status status = Run(*pipeline, 20, [&](Item&) {
      return seen++ == bad ? absl::AbortedError("enough") : absl::OkStatus();
    });
    EXPECT_EQ(status, absl::AbortedError("enough"));
    EXPECT_EQ(seen, bad + 1);
    EXPECT_EQ(alive_, 0);
  }
}

TEST_P(PipelineTest, AStopIsCancelled) {
  for (int64_t last = 0; last < 20; last += 3) {
    const auto pipeline =
        NewPipeline({VisitStage("a"), VisitStage("b")}, "sink", Clock::Real());
    std::stop_source stop;
    int64_t seen = 0;
    const absl::Status status = Run(
        *pipeline, 20,
        [&](Item&) {
          if (seen++ == last) stop.request_stop();
          return absl::OkStatus();
        },
        stop.get_token());
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(seen, last + 1);
    EXPECT_EQ(alive_, 0);
  }
}

TEST_P(PipelineTest, StoppedBeforeTheStart) {
  std::stop_source stop;
  stop.request_stop();
  const auto pipeline =
      NewPipeline({VisitStage("a"), VisitStage("b")}, "sink", Clock::Real());
  EXPECT_TRUE(absl::IsCancelled(Run(
      *pipeline, 20, [](Item&) { return absl::OkStatus(); },
      stop.get_token())));
  EXPECT_EQ(alive_, 0);
}

INSTANTIATE_TEST_SUITE_P(Widths, PipelineTest,
                         ::testing::Combine(::testing::Values(1, 2, 8),
                                            ::testing::Values(1, 3),
                                            ::testing::Values(1, 4)));

TEST(PipelineStatsTest, ThreadsAreNumberedWithinTheirStage) {
  absl::Mutex mutex;
  std::vector<int> used(3, 0);
  const auto pipeline =
      NewPipeline({{.name = "a",
                    .width = 3,
                    .work =
                        [&](int thread, Item&) {
                          absl::MutexLock lock(&mutex);
                          ++used.at(static_cast<size_t>(thread));
                          return absl::OkStatus();
                        }}},
                  "sink", Clock::Real());
  const absl::Status status = pipeline->Run(
      50, [](int64_t) { return std::make_unique<Item>(); },
      [](Item&) { return absl::OkStatus(); }, {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(used[0] + used[1] + used[2], 50);
}

// (How long a thread waits depends on the others: only work is certain.)
TEST(PipelineStatsTest, WorkIsBusyTime) {
  ManualClock clock;
  const auto pipeline = NewPipeline({{.name = "a",
                                      .work =
                                          [&](int, Item&) {
                                            clock.Advance(2);
                                            return absl::OkStatus();
                                          }}},
                                    "sink", clock);
  const absl::Status status = pipeline->Run(
      1, [](int64_t) { return std::make_unique<Item>(); },
      [&](Item&) {
        clock.Advance(5);
        return absl::OkStatus();
      },
      {});
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<StageStats> stats = pipeline->Stats();
  ASSERT_EQ(stats.size(), 2u);
  EXPECT_EQ(stats[0].name, "a");
  EXPECT_EQ(stats[0].busy_seconds, 2);
  EXPECT_EQ(stats[1].name, "sink");
  EXPECT_EQ(stats[1].busy_seconds, 5);
}

}  // namespace
}  // namespace hearth::pipeline
