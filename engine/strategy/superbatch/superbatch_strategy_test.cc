#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/seed_order.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/superbatch_options.h"
#include "engine/strategy/testing/superbatch_harness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::strategy {

namespace {

constexpr uint64_t kPlenty = uint64_t{1} << 60;

// 1,000 bytes of sample and 50 rows a batch: 2,000 bytes of files with the
// plan.
constexpr SuperbatchProfile kProfile = {
    .batches = 4, .file_bytes = 4000, .rows = 200};

TEST(SuperbatchSizeTest, TwoSuperbatchesFitOnTheDisk) {
  EXPECT_EQ(SuperbatchSize(kProfile,
                           {.file_bytes = 4000 * 30, .plan_bytes = kPlenty}),
            30);
  EXPECT_EQ(SuperbatchSize(
                kProfile, {.file_bytes = 4000 * 30 - 1, .plan_bytes = kPlenty}),
            29);
}

TEST(SuperbatchSizeTest, PlanningFitsIntoMemory) {
  EXPECT_EQ(
      SuperbatchSize(kProfile, {.file_bytes = kPlenty, .plan_bytes = 200 * 7}),
      7);
}

TEST(SuperbatchSizeTest, IsAtLeastOneBatch) {
  EXPECT_EQ(SuperbatchSize(kProfile, {}), 1);
  EXPECT_EQ(SuperbatchSize(kProfile, {.file_bytes = 3999, .plan_bytes = 199}),
            1);
}

TEST(SuperbatchSizeTest, BatchesOfNothingTakeNextToNothing) {
  EXPECT_EQ(
      SuperbatchSize({.batches = 1}, {.file_bytes = 20, .plan_bytes = 10}), 10);
}

TEST(SuperbatchSizeTest, LimitsFollowDiskAndCache) {
  const SuperbatchLimits small = LimitsFor(4000, 1000);
  EXPECT_EQ(small.file_bytes, 1000u);
  EXPECT_EQ(small.plan_bytes, 64u << 20);
  const SuperbatchLimits large = LimitsFor(kPlenty, uint64_t{1} << 36);
  EXPECT_EQ(large.file_bytes, 100'000'000'000u);
  EXPECT_EQ(large.plan_bytes, uint64_t{1} << 34);
}

}  // namespace

// Compares forecasts of strategies with superbatches with their runs.

namespace {

class SuperbatchForecastTest : public SuperbatchTest {
 protected:
  SuperbatchForecastTest() {
    partition_ = MakePartition();
    const std::vector<store::NodeId> train = dataset_.LoadSplit()->train;
    std::vector<uint16_t> parts;
    for (const store::NodeId node : train) {
      parts.push_back(static_cast<uint16_t>(node % kParts));
    }
    parted_ = sample::NewPartitionOrder(
        train, {.parts = parts, .parts_per_macro_batch = 4, .data_seed = 3});
  }

  Pass PartedPass() const {
    Pass pass = MakePass(0);
    pass.order = parted_.get();
    return pass;
  }

  // Strategies with caches from little to everything.
  static std::vector<StrategyOptions> AllOptions() {
    std::vector<StrategyOptions> all;
    for (const int64_t superbatch : {0, 5}) {
      for (const int64_t rows : {10, 60, 300}) {
        for (const uint64_t lists : {kTable + 3000, uint64_t{27'000}}) {
          all.push_back(GinexOptions{.cpu_cache_bytes = CacheOf(rows),
                                     .neighbor_cache_bytes = lists,
                                     .superbatch = superbatch});
          all.push_back(OutreOptions{.cpu_cache_bytes = CacheOf(rows),
                                     .neighbor_cache_bytes = lists,
                                     .superbatch = superbatch});
        }
      }
    }
    return all;
  }

  absl::StatusOr<Forecast> Foretell(const StrategyOptions& options,
                                    const Pass& pass,
                                    std::stop_token stop = {}) {
    const std::vector<Pass> passes = {pass};
    const std::string folder = scratch_.Path("forecast");
    EXPECT_TRUE(io::FileSystem::Posix().CreateDirectory(folder).ok());
    return MakeForecast(options,
                        {.dataset = hooked_,
                         .labels = labels_,
                         .files = faulty_,
                         .read_queues = *queues_,
                         .clock = clock_,
                         .pipeline = pipeline_,
                         .plans = plans_,
                         .scratch_folder = folder,
                         .listener = listener_,
                         .stop = std::move(stop),
                         .partition = partition_},
                        {.passes = passes,
                         .num_training = 1,
                         .time_training = [] { return 0.001; }});
  }

  // Expects equal figures in the forecast and in the run.
  void ExpectForetold(const StrategyOptions& options, const Pass& pass) {
    const auto forecast = Foretell(options, pass);
    ASSERT_TRUE(forecast.ok()) << forecast.status();
    const PassReport report = Run(*Make(options), pass).report;
    EXPECT_EQ(forecast->rows_needed, static_cast<uint64_t>(report.rows_needed));
    EXPECT_EQ(*forecast->bytes_read, static_cast<uint64_t>(*report.bytes_read));
    EXPECT_EQ(*forecast->read_ops, static_cast<uint64_t>(*report.read_ops));
    ASSERT_EQ(forecast->levels.size(), 1u);
    EXPECT_EQ(forecast->levels[0].level, report.hits[0].level);
    EXPECT_EQ(forecast->levels[0].rows,
              static_cast<uint64_t>(report.hits[0].rows));
    EXPECT_GT(*forecast->epoch_seconds, 0);
    EXPECT_EQ(forecast->sampled_batches, static_cast<uint64_t>(report.batches));
    EXPECT_TRUE(
        io::FileSystem::Posix().List(scratch_.Path("forecast"))->empty());
  }

  const store::Labels labels_ = *dataset_.LoadLabels();
  const PipelineOptions pipeline_ = {.samplers = 2, .extractors = 1};
  const PreparationListener listener_;
  plan::PlanStore plans_{
      io::FileSystem::Posix(), clock_, {.folder = scratch_.Path("plans")}};
  std::unique_ptr<sample::SeedOrder> parted_;
};

TEST_F(SuperbatchForecastTest, RowsAndReadsAreThoseOfTheRun) {
  for (const StrategyOptions& options : AllOptions()) {
    SCOPED_TRACE(Name(options));
    ExpectForetold(options, PartedPass());
  }
  ExpectForetold(GinexOptions{.cpu_cache_bytes = CacheOf(40)}, MakePass(3));
}

TEST_F(SuperbatchForecastTest, AHistoryIsTakenIntoAccount) {
  std::vector<store::NodeId> candidates;
  for (store::NodeId node = 0; node < kNodes; node += 2) {
    candidates.push_back(node);
  }
  const sample::HistoryPolicy policy = {
      .candidates =
          std::make_shared<sample::HistoryCandidates>(candidates, kNodes),
      .staleness = 4};
  Pass pass = PartedPass();
  pass.history = &policy;
  const OutreOptions options = {.cpu_cache_bytes = CacheOf(40),
                                .superbatch = 5};
  ExpectForetold(options, pass);
  EXPECT_LT(Foretell(options, pass)->rows_needed,
            Foretell(options, PartedPass())->rows_needed);
}

TEST_F(SuperbatchForecastTest, AStopEndsItAndLeavesNothing) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(
      absl::IsCancelled(Foretell(GinexOptions{.cpu_cache_bytes = CacheOf(40)},
                                 MakePass(0), stop.get_token())
                            .status()));
  EXPECT_TRUE(io::FileSystem::Posix().List(scratch_.Path("forecast"))->empty());
}

// Resident lists are the lists that a run finds in memory, counted once for
// each layer of each batch.
TEST_F(SuperbatchForecastTest, ResidentListsAreThoseThatTheRunFinds) {
  for (const StrategyOptions& options : AllOptions()) {
    const Pass pass = PartedPass();
    const std::vector<Pass> passes = {pass};
    const auto lists = FindResidentLists(options, {.files = faulty_,
                                                   .dataset = hooked_,
                                                   .partition = partition_,
                                                   .passes = passes,
                                                   .stop = {}});
    ASSERT_TRUE(lists.ok()) << lists.status();
    int64_t resident = 0;
    int64_t others = 0;
    int64_t number = 0;
    PassReport report;
    const absl::Status status = Make(options)->Run(
        pass,
        [&](absl::Span<const train::BatchView> shards) {
          const sample::MiniBatch& batch = shards.front().sample;
          for (const sample::Block& block : batch.blocks) {
            for (int64_t row = 0; row < block.num_destinations; ++row) {
              if (batch.in_degrees[row] == 0) continue;
              ++((*lists)->Has(number, batch.input_nodes[row]) ? resident
                                                               : others);
            }
          }
          ++number;
          return absl::OkStatus();
        },
        {}, report);
    ASSERT_TRUE(status.ok()) << status;
    int64_t found = 0;
    for (const ListHits& hits : report.list_hits) found += hits.lists;
    EXPECT_EQ(resident, found) << Name(options);
    EXPECT_EQ(others, *report.lists_read) << Name(options);
  }
}

TEST_F(SuperbatchForecastTest, OtherStrategiesHaveAllListsOrNone) {
  for (const auto& [options, all] :
       {std::pair{StrategyOptions(MemoryOptions{}), true},
        std::pair{StrategyOptions(GnndriveOptions{}), false}}) {
    const auto lists = FindResidentLists(options, {.files = faulty_,
                                                   .dataset = hooked_,
                                                   .partition = nullptr,
                                                   .passes = {},
                                                   .stop = {}});
    EXPECT_EQ((*lists)->Has(0, 1), all);
  }
}

}  // namespace

}  // namespace hearth::strategy
