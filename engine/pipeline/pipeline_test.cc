#include "engine/pipeline/pipeline.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <numeric>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/clock.h"
#include "engine/pipeline/observed_clock_fixture.h"
#include "gtest/gtest.h"

namespace hearth::pipeline {

namespace {

TEST(StageMeterTest, StartsAtZero) {
  ObservedClock clock;
  const StageMeter meter(2, clock);
  clock.Advance(5);
  const StageMeter::Totals totals = meter.Read();
  EXPECT_EQ(totals.starved_seconds, 0);
  EXPECT_EQ(totals.busy_seconds, 0);
  EXPECT_EQ(totals.blocked_seconds, 0);
  EXPECT_EQ(totals.items, 0);
}

TEST(StageMeterTest, EveryMomentCountsForOneActivity) {
  ObservedClock clock;
  StageMeter meter(1, clock);
  meter.Switch(0, Activity::kStarved);
  clock.Advance(1);
  meter.Switch(0, Activity::kBusy);
  clock.Advance(2);
  meter.CountItem();
  meter.Switch(0, Activity::kBlocked);
  clock.Advance(4);
  meter.Switch(0, Activity::kAbsent);
  clock.Advance(8);
  const StageMeter::Totals totals = meter.Read();
  EXPECT_EQ(totals.starved_seconds, 1);
  EXPECT_EQ(totals.busy_seconds, 2);
  EXPECT_EQ(totals.blocked_seconds, 4);
  EXPECT_EQ(totals.items, 1);
}

TEST(StageMeterTest, TheCurrentActivityIsIncludedOnceInEachReading) {
  ObservedClock clock;
  StageMeter meter(1, clock);
  meter.Switch(0, Activity::kBusy);
  clock.Advance(3);
  EXPECT_EQ(meter.Read().busy_seconds, 3);
  clock.Advance(1);
  EXPECT_EQ(meter.Read().busy_seconds, 4);
  meter.Switch(0, Activity::kBusy);
  EXPECT_EQ(meter.Read().busy_seconds, 4);
}

TEST(StageMeterTest, ThreadsAreSummed) {
  ObservedClock clock;
  StageMeter meter(3, clock);
  meter.Switch(0, Activity::kBusy);
  meter.Switch(1, Activity::kBusy);
  clock.Advance(2);
  meter.Switch(1, Activity::kBlocked);
  meter.Switch(2, Activity::kStarved);
  clock.Advance(1);
  const StageMeter::Totals totals = meter.Read();
  EXPECT_EQ(totals.busy_seconds, 5);
  EXPECT_EQ(totals.blocked_seconds, 1);
  EXPECT_EQ(totals.starved_seconds, 1);
}

// An item that notes which stages it passed, in which order, and counts itself.
class TracedItem final : public Item {
 public:
  TracedItem(int64_t number, std::atomic<int>& alive)
      : number(number), alive_(alive) {
    ++alive_;
  }
  ~TracedItem() override { --alive_; }

  const int64_t number;
  std::vector<int> stages;

 private:
  std::atomic<int>& alive_;
};

// A run of a pipeline whose stages and sink do `fault` first.
struct Scenario {
  int num_stages = 2;
  int width = 1;
  int queue_capacity = 1;
  int64_t num_items = 20;
  // Items that can be made.
  int64_t num_made = INT64_MAX;
  // The threads of the stages but the first hold back so many items each; -1:
  // they have no loops.
  int held = -1;
  // Called by every stage, and by the sink as stage `num_stages`.
  std::function<absl::Status(int stage, int64_t number)> fault =
      [](int, int64_t) { return absl::OkStatus(); };
};

struct Outcome {
  absl::Status status;
  std::vector<int64_t> delivered;
  std::vector<StageStats> stats;
};

absl::Status HoldBack(const Scenario& scenario, int stage, StagePorts& ports) {
  std::deque<std::unique_ptr<Item>> held;
  bool ended = false;
  while (true) {
    while (!ended && held.size() <= static_cast<size_t>(scenario.held)) {
      std::unique_ptr<Item> item = ports.TryTake();
      if (item == nullptr) item = ports.Take();
      ended = item == nullptr;
      if (!ended) held.push_back(std::move(item));
    }
    if (held.empty()) return absl::OkStatus();
    auto& traced = static_cast<TracedItem&>(*held.front());
    traced.stages.push_back(stage);
    const absl::Status status = scenario.fault(stage, traced.number);
    if (!status.ok()) return status;
    if (!ports.Put(std::move(held.front()))) return absl::OkStatus();
    held.pop_front();
  }
}

Stage MakeStage(const Scenario& scenario, int stage) {
  if (scenario.held >= 0 && stage > 0) {
    return {.name = absl::StrCat("stage", stage),
            .width = scenario.width,
            .queue_capacity = scenario.queue_capacity,
            .loop = [&scenario, stage](StagePorts& ports) {
              EXPECT_GE(ports.thread(), 0);
              EXPECT_LT(ports.thread(), scenario.width);
              return HoldBack(scenario, stage, ports);
            }};
  }
  return {.name = absl::StrCat("stage", stage),
          .width = scenario.width,
          .queue_capacity = scenario.queue_capacity,
          .work = [&scenario, stage](int thread, Item& item) {
            EXPECT_GE(thread, 0);
            EXPECT_LT(thread, scenario.width);
            auto& traced = static_cast<TracedItem&>(item);
            traced.stages.push_back(stage);
            return scenario.fault(stage, traced.number);
          }};
}

// Runs the scenario and checks what holds in every one: the sink saw a prefix
// of the items in order, each after all stages, and no item is left.
Outcome RunScenario(const Scenario& scenario, std::stop_token stop = {}) {
  std::vector<Stage> stages;
  for (int i = 0; i < scenario.num_stages; ++i) {
    stages.push_back(MakeStage(scenario, i));
  }
  const auto pipeline = NewPipeline(std::move(stages), "sink", Clock::Real());
  std::vector<int> all_stages(scenario.num_stages);
  std::iota(all_stages.begin(), all_stages.end(), 0);
  std::atomic<int> alive = 0;
  Outcome outcome;
  outcome.status = pipeline->Run(
      scenario.num_items,
      [&](int64_t number) -> std::unique_ptr<Item> {
        if (number >= scenario.num_made) return nullptr;
        return std::make_unique<TracedItem>(number, alive);
      },
      [&](std::unique_ptr<Item> item) {
        const auto& traced = static_cast<TracedItem&>(*item);
        EXPECT_EQ(traced.number,
                  static_cast<int64_t>(outcome.delivered.size()));
        EXPECT_EQ(traced.stages, all_stages);
        outcome.delivered.push_back(traced.number);
        return scenario.fault(scenario.num_stages, traced.number);
      },
      std::move(stop));
  EXPECT_EQ(alive, 0) << "items outlived Run";
  outcome.stats = pipeline->Stats();
  return outcome;
}

// (width, queue capacity, items held back)
class PipelineShapeTest
    : public ::testing::TestWithParam<std::tuple<int, int, int>> {
 protected:
  static Scenario Shape() {
    Scenario scenario;
    std::tie(scenario.width, scenario.queue_capacity, scenario.held) =
        GetParam();
    return scenario;
  }
};

TEST_P(PipelineShapeTest, DeliversAllItemsInOrder) {
  for (const int num_stages : {1, 2, 3}) {
    Scenario scenario = Shape();
    scenario.num_stages = num_stages;
    scenario.num_items = 50;
    const Outcome outcome = RunScenario(scenario);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.delivered.size(), 50u);
    ASSERT_EQ(outcome.stats.size(), static_cast<size_t>(num_stages) + 1);
    for (const StageStats& stats : outcome.stats) {
      EXPECT_EQ(stats.items, 50) << stats.name;
      EXPECT_EQ(stats.queue_length, 0) << stats.name;
    }
  }
}

TEST_P(PipelineShapeTest, WithoutItemsEndsAtOnce) {
  Scenario scenario = Shape();
  scenario.num_items = 0;
  const Outcome outcome = RunScenario(scenario);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_TRUE(outcome.delivered.empty());
}

TEST_P(PipelineShapeTest, EndsAfterTheLastItemThatIsMade) {
  Scenario scenario = Shape();
  for (const int64_t num_made : {0, 1, 7}) {
    scenario.num_made = num_made;
    const Outcome outcome = RunScenario(scenario);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(outcome.delivered.size(), static_cast<size_t>(num_made));
  }
}

TEST_P(PipelineShapeTest, AnErrorAnywhereStopsAndIsReturned) {
  Scenario scenario = Shape();
  scenario.num_items = 8;
  for (int stage = 0; stage <= scenario.num_stages; ++stage) {
    for (int64_t number = 0; number < scenario.num_items; ++number) {
      scenario.fault = [stage, number](int at_stage, int64_t at_number) {
        return at_stage == stage && at_number == number
                   ? absl::DataLossError(absl::StrCat(stage, "/", number))
                   : absl::OkStatus();
      };
      const Outcome outcome = RunScenario(scenario);
      EXPECT_EQ(outcome.status,
                absl::DataLossError(absl::StrCat(stage, "/", number)));
      const size_t most = number + (stage == scenario.num_stages ? 1 : 0);
      EXPECT_LE(outcome.delivered.size(), most);
    }
  }
}

TEST_P(PipelineShapeTest, AStopAnywhereCancels) {
  Scenario scenario = Shape();
  scenario.num_items = 8;
  for (int stage = 0; stage <= scenario.num_stages; ++stage) {
    for (int64_t number = 0; number < scenario.num_items; ++number) {
      std::stop_source source;
      scenario.fault = [&, stage, number](int at_stage, int64_t at_number) {
        if (at_stage == stage && at_number == number) source.request_stop();
        return absl::OkStatus();
      };
      const Outcome outcome = RunScenario(scenario, source.get_token());
      EXPECT_TRUE(absl::IsCancelled(outcome.status)) << outcome.status;
      const size_t most = number + (stage == scenario.num_stages ? 1 : 0);
      EXPECT_LE(outcome.delivered.size(), most);
    }
  }
}

TEST_P(PipelineShapeTest, NoMoreItemsAreAliveThanThreadsAndQueuesHold) {
  const auto [width, capacity, held] = GetParam();
  if (held >= 0) return;  // For stages without a loop only.
  std::atomic<int> alive = 0;
  std::atomic<int> most = 0;
  const auto note = [&](int, Item&) {
    int seen = most;
    while (seen < alive && !most.compare_exchange_weak(seen, alive)) {
    }
    return absl::OkStatus();
  };
  const auto pipeline = NewPipeline(
      {{.name = "a", .width = width, .queue_capacity = capacity, .work = note},
       {.name = "b", .width = width, .queue_capacity = capacity, .work = note}},
      "sink", Clock::Real());
  EXPECT_TRUE(
      pipeline
          ->Run(
              200,
              [&](int64_t number) {
                return std::make_unique<TracedItem>(number, alive);
              },
              [&](std::unique_ptr<Item> item) { return note(0, *item); }, {})
          .ok());
  EXPECT_LE(most, 2 * (width + capacity) + 1);
}

INSTANTIATE_TEST_SUITE_P(Shapes, PipelineShapeTest,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5, 8),
                                            ::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(-1)),
                         [](const auto& info) {
                           return absl::StrCat("width", std::get<0>(info.param),
                                               "_capacity",
                                               std::get<1>(info.param));
                         });
INSTANTIATE_TEST_SUITE_P(Loops, PipelineShapeTest,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(1, 3),
                                            ::testing::Values(0, 1, 3, 100)),
                         [](const auto& info) {
                           return absl::StrCat("width", std::get<0>(info.param),
                                               "_capacity",
                                               std::get<1>(info.param), "_held",
                                               std::get<2>(info.param));
                         });

// An item that waits for a later one would lock a pipeline by number.
TEST(PipelineTest, AsDoneASlowItemHoldsUpNoOther) {
  constexpr int64_t kItems = 30;
  std::atomic<int> alive = 0;
  absl::Notification others_done;
  const auto pipeline =
      NewPipeline({{.name = "stage",
                    .width = 2,
                    .queue_capacity = 1,
                    .work =
                        [&](int, Item& item) {
                          if (static_cast<TracedItem&>(item).number == 0) {
                            others_done.WaitForNotification();
                          }
                          return absl::OkStatus();
                        }},
                   {.name = "next",
                    .width = 3,
                    .queue_capacity = 2,
                    .work = [](int, Item&) { return absl::OkStatus(); }}},
                  "sink", Clock::Real(), Order::kAsDone);
  std::vector<int64_t> delivered;
  const absl::Status status = pipeline->Run(
      kItems,
      [&](int64_t number) {
        return std::make_unique<TracedItem>(number, alive);
      },
      [&](std::unique_ptr<Item> item) {
        delivered.push_back(static_cast<TracedItem&>(*item).number);
        if (delivered.size() == kItems - 1) others_done.Notify();
        return absl::OkStatus();
      },
      {});
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(delivered.size(), static_cast<size_t>(kItems));
  EXPECT_EQ(delivered.back(), 0);
  std::sort(delivered.begin(), delivered.end());
  for (int64_t i = 0; i < kItems; ++i) EXPECT_EQ(delivered[i], i);
  EXPECT_EQ(alive, 0);
}

TEST(PipelineTest, ALoopThatKeepsItemsIsAnError) {
  std::atomic<int> alive = 0;
  const auto pipeline = NewPipeline(
      {{.name = "stage", .work = [](int, Item&) { return absl::OkStatus(); }},
       {.name = "greedy",
        .loop =
            [](StagePorts& ports) {
              ports.Put(ports.Take());
              return absl::OkStatus();
            }}},
      "sink", Clock::Real());
  const absl::Status status = pipeline->Run(
      5,
      [&](int64_t number) {
        return std::make_unique<TracedItem>(number, alive);
      },
      [](std::unique_ptr<Item>) { return absl::OkStatus(); }, {});
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_NE(status.message().find("greedy"), status.message().npos);
  EXPECT_EQ(alive, 0);
}

TEST(PipelineTest, ALoopKnowsWhetherThereIsAPlace) {
  std::atomic<int> alive = 0;
  std::vector<bool> had_place;
  absl::Notification full;
  const auto pipeline = NewPipeline(
      {{.name = "stage", .work = [](int, Item&) { return absl::OkStatus(); }},
       {.name = "loop",
        .queue_capacity = 2,
        .loop =
            [&](StagePorts& ports) {
              while (std::unique_ptr<Item> item = ports.Take()) {
                had_place.push_back(ports.CanPut());
                if (!had_place.back() && !full.HasBeenNotified()) full.Notify();
                if (!ports.Put(std::move(item))) break;
              }
              return absl::OkStatus();
            }}},
      "sink", Clock::Real());
  const absl::Status status = pipeline->Run(
      6,
      [&](int64_t number) {
        return std::make_unique<TracedItem>(number, alive);
      },
      [&](std::unique_ptr<Item>) {
        // The first item is here: the next two find places.
        full.WaitForNotification();
        return absl::OkStatus();
      },
      {});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(had_place[0]);
  EXPECT_TRUE(had_place[1]);
}

TEST(PipelineTest, TheSinkKeepsWhatItTook) {
  for (const bool fails : {false, true}) {
    std::atomic<int> alive = 0;
    const auto pipeline =
        NewPipeline({{.name = "stage",
                      .work = [](int, Item&) { return absl::OkStatus(); }}},
                    "sink", Clock::Real());
    std::vector<std::unique_ptr<Item>> kept;
    const absl::Status status = pipeline->Run(
        20,
        [&](int64_t number) {
          return std::make_unique<TracedItem>(number, alive);
        },
        [&](std::unique_ptr<Item> item) {
          kept.push_back(std::move(item));
          return fails && kept.size() == 4 ? absl::AbortedError("enough")
                                           : absl::OkStatus();
        },
        {});
    EXPECT_EQ(status.ok(), !fails) << status;
    EXPECT_EQ(kept.size(), fails ? 4u : 20u);
    EXPECT_EQ(alive, static_cast<int>(kept.size()));
    for (size_t i = 0; i < kept.size(); ++i) {
      EXPECT_EQ(static_cast<TracedItem&>(*kept[i]).number,
                static_cast<int64_t>(i));
    }
    kept.clear();
    EXPECT_EQ(alive, 0);
  }
}

// Item 1 waits for what only the interrupt brings.
absl::Status RunWithWaitingItem(const std::function<absl::Status()>& sink,
                                std::stop_token stop, int& interrupts) {
  std::atomic<int> alive = 0;
  absl::Notification interrupted;
  const auto pipeline =
      NewPipeline({{.name = "stage",
                    .width = 2,
                    .work =
                        [&](int, Item& item) {
                          if (static_cast<TracedItem&>(item).number == 1) {
                            interrupted.WaitForNotification();
                          }
                          return absl::OkStatus();
                        },
                    .interrupt =
                        [&] {
                          ++interrupts;
                          interrupted.Notify();
                        }}},
                  "sink", Clock::Real());
  return pipeline->Run(
      3,
      [&](int64_t number) {
        return std::make_unique<TracedItem>(number, alive);
      },
      [&](std::unique_ptr<Item>) { return sink(); }, std::move(stop));
}

TEST(PipelineTest, AnErrorInterruptsWorkThatWaits) {
  int interrupts = 0;
  EXPECT_EQ(RunWithWaitingItem([] { return absl::AbortedError("x"); }, {},
                               interrupts),
            absl::AbortedError("x"));
  EXPECT_EQ(interrupts, 1);
}

TEST(PipelineTest, AStopInterruptsWorkThatWaits) {
  int interrupts = 0;
  std::stop_source stop;
  EXPECT_TRUE(absl::IsCancelled(RunWithWaitingItem(
      [&] {
        stop.request_stop();
        return absl::OkStatus();
      },
      stop.get_token(), interrupts)));
  EXPECT_EQ(interrupts, 1);
}

TEST(PipelineTest, AStopRequestedBeforeTheRunDeliversNothing) {
  std::stop_source source;
  source.request_stop();
  const Outcome outcome = RunScenario({}, source.get_token());
  EXPECT_TRUE(absl::IsCancelled(outcome.status));
  EXPECT_TRUE(outcome.delivered.empty());
}

TEST(PipelineTest, TheFirstErrorWins) {
  // The sink's error comes after the stop that it requests itself.
  std::stop_source source;
  Scenario scenario;
  scenario.fault = [&](int stage, int64_t number) {
    if (stage < 2) return absl::OkStatus();
    source.request_stop();
    return absl::InternalError("too late");
  };
  EXPECT_TRUE(
      absl::IsCancelled(RunScenario(scenario, source.get_token()).status));
}

// Random shapes, ended by nothing, an error or a stop from outside.
TEST(PipelineTest, ManyRunsUnderStress) {
  for (int round = 0; round < 300; ++round) {
    std::stop_source source;
    std::atomic<int64_t> passed = 0;
    const int64_t end_at = round * 7 % 120;
    Scenario scenario{.num_stages = 1 + round % 3,
                      .width = 1 + round % 5,
                      .queue_capacity = 1 + round % 4,
                      .num_items = 40};
    scenario.fault = [&](int, int64_t) {
      if (++passed != end_at || round % 3 == 0) return absl::OkStatus();
      if (round % 3 == 1) return absl::AbortedError("ended");
      return absl::OkStatus();
    };
    std::thread stopper([&] {
      if (round % 3 == 2) source.request_stop();
    });
    const Outcome outcome = RunScenario(scenario, source.get_token());
    stopper.join();
    if (outcome.status.ok()) {
      EXPECT_EQ(outcome.delivered.size(), 40u);
    }
  }
}

TEST(PipelineStatsTest, NamesAndThreads) {
  const auto pipeline = NewPipeline(
      {{.name = "a", .width = 3, .work = nullptr}}, "sink", Clock::Real());
  const std::vector<StageStats> stats = pipeline->Stats();
  ASSERT_EQ(stats.size(), 2u);
  EXPECT_EQ(stats[0].name, "a");
  EXPECT_EQ(stats[0].threads, 3);
  EXPECT_EQ(stats[1].name, "sink");
  EXPECT_EQ(stats[1].threads, 1);
}

// One stage of one thread before the sink, on a clock that both can watch.
class PipelineTimesTest : public ::testing::Test {
 protected:
  std::vector<StageStats> Run(int64_t num_items,
                              const std::function<void()>& work,
                              const std::function<void()>& sink) {
    std::atomic<int> alive = 0;
    const auto pipeline = NewPipeline({{.name = "stage",
                                        .width = 1,
                                        .queue_capacity = 1,
                                        .work =
                                            [&](int, Item&) {
                                              stage_thread_ =
                                                  std::this_thread::get_id();
                                              work();
                                              return absl::OkStatus();
                                            }}},
                                      "sink", clock_);
    EXPECT_TRUE(pipeline
                    ->Run(
                        num_items,
                        [&](int64_t number) {
                          return std::make_unique<TracedItem>(number, alive);
                        },
                        [&](std::unique_ptr<Item>) {
                          sink();
                          return absl::OkStatus();
                        },
                        {})
                    .ok());
    return pipeline->Stats();
  }

  ObservedClock clock_;
  const std::thread::id sink_thread_ = std::this_thread::get_id();
  std::atomic<std::thread::id> stage_thread_;
};

TEST_F(PipelineTimesTest, WorkIsBusyAndTheSinkStarvesMeanwhile) {
  const std::vector<StageStats> stats = Run(
      1,
      [&] {
        clock_.AwaitReads(sink_thread_, 1);  // It waits for the item.
        clock_.Advance(5);
      },
      [&] {
        // Claim, work, push, claim, end.
        clock_.AwaitReads(stage_thread_, 5);
        clock_.Advance(3);
      });
  EXPECT_EQ(stats[0].busy_seconds, 5);
  EXPECT_EQ(stats[0].starved_seconds, 0);
  EXPECT_EQ(stats[0].blocked_seconds, 0);
  EXPECT_EQ(stats[1].starved_seconds, 5);
  EXPECT_EQ(stats[1].busy_seconds, 3);
  EXPECT_EQ(stats[1].blocked_seconds, 0);
}

TEST_F(PipelineTimesTest, AFullQueueBlocks) {
  std::atomic<int> delivered = 0;
  const std::vector<StageStats> stats = Run(
      3, [] {},
      [&] {
        if (delivered++ > 0) return;
        // Claim, work and push for each item: the third waits for a place.
        clock_.AwaitReads(stage_thread_, 9);
        clock_.Advance(7);
      });
  EXPECT_EQ(stats[0].blocked_seconds, 7);
  EXPECT_EQ(stats[0].busy_seconds, 0);
  EXPECT_EQ(stats[1].busy_seconds, 7);
  EXPECT_EQ(stats[1].starved_seconds, 0);
}

TEST(PipelineLiveStatsTest, TellQueueLengthsWhileRunning) {
  ObservedClock clock;
  std::atomic<int> alive = 0;
  std::atomic<std::thread::id> stage_thread;
  std::unique_ptr<Pipeline> pipeline =
      NewPipeline({{.name = "stage",
                    .width = 1,
                    .queue_capacity = 2,
                    .work =
                        [&](int, Item&) {
                          stage_thread = std::this_thread::get_id();
                          return absl::OkStatus();
                        }}},
                  "sink", clock);
  int64_t longest = 0;
  const absl::Status status = pipeline->Run(
      4,
      [&](int64_t number) {
        return std::make_unique<TracedItem>(number, alive);
      },
      [&](std::unique_ptr<Item> item) {
        if (static_cast<TracedItem&>(*item).number > 0) return absl::OkStatus();
        // Items 1 and 2 are inside, item 3 waits for a place.
        clock.AwaitReads(stage_thread, 12);
        longest = pipeline->Stats()[0].queue_length;
        return absl::OkStatus();
      },
      {});
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(longest, 2);
}

}  // namespace

}  // namespace hearth::pipeline
