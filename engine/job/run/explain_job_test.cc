#include "engine/job/run/explain_job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "engine/job/run/job_fixture.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/kinds.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::job {
namespace {

using ::testing::HasSubstr;

uint64_t RowsOf(const ExplainReport& report, const std::string& level) {
  for (const strategy::LevelForecast& found : report.levels) {
    if (found.level == level) return found.rows;
  }
  ADD_FAILURE() << "no level " << level;
  return 0;
}

// Mean of a value over a job's epochs.
template <typename Figure>
double MeanOf(const WholeReport& report, const Figure& figure) {
  double sum = 0;
  for (const EpochReport& epoch : report.epochs) {
    sum += static_cast<double>(figure(epoch.training));
  }
  return sum / static_cast<double>(report.epochs.size());
}

class ExplainJobTest : public JobTest {
 protected:
  // A memory limit too small to pack all rows.
  static constexpr uint64_t kTightLimit = 450000;

  static strategy::DiskgnnOptions Small() { return {.cpu_cache_bytes = 8192}; }

  TrainJobOptions Diskgnn(const strategy::DiskgnnOptions& diskgnn = Small()) {
    TrainJobOptions options = Options("job");
    options.data.strategy = diskgnn;
    return options;
  }

  absl::StatusOr<ExplainReport> Explain(const TrainJobOptions& options,
                                        int64_t most_batches = 512,
                                        std::stop_token stop = {}) {
    const JobEnvironment environment = Environment();
    return RunExplainJob(environment, options, observer_, std::move(stop),
                         most_batches);
  }

  // All files and folders.
  std::set<std::string> Files() const {
    std::set<std::string> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(root_)) {
      files.insert(entry.path().string());
    }
    // The scratch folder belongs to no single job.
    files.erase(root_ + "/scratch");
    return files;
  }

  static void ExpectNear(uint64_t actual, double expected, double part) {
    EXPECT_NEAR(static_cast<double>(actual), expected, part * expected);
  }

  // Compares the forecast's rows, bytes and disk with what the job reports.
  void ExpectWhatHappens(const ExplainReport& report,
                         const WholeReport& trained) {
    const auto mean = [&](auto figure) { return MeanOf(trained, figure); };
    EXPECT_EQ(report.rows_needed,
              static_cast<uint64_t>(std::llround(
                  mean([](const auto& pass) { return pass.rows_needed; }))));
    EXPECT_EQ(report.bytes_needed, report.rows_needed * 80);
    EXPECT_EQ(report.batches,
              static_cast<uint64_t>(trained.epochs[0].training.batches));
    ExpectNear(RowsOf(report, "cpu_cache"),
               mean([](const auto& pass) { return pass.hits[0].rows; }), 0.001);
    ExpectNear(RowsOf(report, "disk_cache") + RowsOf(report, "packs"),
               mean([](const auto& pass) { return *pass.rows_read; }), 0.001);
    ExpectNear(*report.bytes_read,
               mean([](const auto& pass) { return *pass.bytes_read; }), 0.01);
    ExpectNear(*report.read_ops,
               mean([](const auto& pass) { return *pass.read_ops; }), 0.01);
    EXPECT_EQ(report.plan, trained.preparations[0].preparation.plan);
    EXPECT_EQ(*report.disk_bytes,
              trained.preparations[0].preparation.disk_bytes);
    EXPECT_EQ(report.memory_bytes, trained.memory.TotalBytes());
  }
};

TEST_F(ExplainJobTest, FromAllBatchesItForecastsWhatHappens) {
  for (const uint64_t limit : {uint64_t{0}, kTightLimit}) {
    SCOPED_TRACE(limit);
    strategy::DiskgnnOptions diskgnn = Small();
    diskgnn.disk_limit_bytes = limit;
    TrainJobOptions options = Diskgnn(diskgnn);
    options.directory += std::to_string(limit);
    const auto report = Explain(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->plan_exists);
    // 4 epochs of 6 batches, 2 of validation and 2 of test.
    EXPECT_EQ(report->total_batches, 28u);
    EXPECT_EQ(report->sampled_batches, 28u);
    EXPECT_GT(*report->prepare_seconds, 0);
    EXPECT_GT(*report->epoch_seconds, 0);
    EXPECT_EQ(RowsOf(*report, "disk_cache") > 0, limit > 0);
    const auto trained = Run(options);
    ASSERT_TRUE(trained.ok()) << trained.status();
    EXPECT_FALSE(trained->preparations[0].preparation.reused);
    EXPECT_THAT(absl::StrJoin(report->notes, "\n"),
                HasSubstr(trained->preparations[0].preparation.reason));
    ExpectWhatHappens(*report, *trained);
  }
}

TEST_F(ExplainJobTest, AHistoryIsTakenIntoAccount) {
  TrainJobOptions options = Diskgnn();
  const auto exact = Explain(options);
  ASSERT_TRUE(exact.ok()) << exact.status();
  options.data.history =
      HistoryOptions{.cache_bytes = 16 << 10, .staleness = 3};
  const auto report = Explain(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(report->rows_needed, exact->rows_needed);
  // Few batches are sampled, but the first ones decide what later ones pull.
  options.data.history->compare_epochs = 1;
  const auto some = Explain(options, 9);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_EQ(some->sampled_batches, 9u);
  EXPECT_LT(some->rows_needed, Explain(Diskgnn(), 9)->rows_needed);
  EXPECT_THAT(absl::StrJoin(some->notes, "\n"),
              HasSubstr("epochs without the history"));
  options.data.history->compare_epochs = 0;
  const auto trained = Run(options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  ExpectWhatHappens(*report, *trained);
  const auto known = Explain(options);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_TRUE(known->plan_exists);
  ExpectWhatHappens(*known, *trained);
}

TEST_F(ExplainJobTest, APlanThatIsThereTellsItsOwnFigures) {
  strategy::DiskgnnOptions diskgnn = Small();
  diskgnn.disk_limit_bytes = kTightLimit;
  const TrainJobOptions options = Diskgnn(diskgnn);
  const auto trained = Run(options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  const auto used = plans_->List()->front().used;
  const auto report = Explain(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->plan_exists);
  EXPECT_EQ(report->sampled_batches, 0u);
  EXPECT_EQ(*report->prepare_seconds, 0);
  EXPECT_GT(*report->epoch_seconds, 0);
  ExpectWhatHappens(*report, *trained);
  // The forecast did not use the plan.
  EXPECT_EQ(plans_->List()->front().used, used);
}

TEST_F(ExplainJobTest, ADamagedPlanIsForecastAnew) {
  const TrainJobOptions options = Diskgnn();
  const auto trained = Run(options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  const std::string index =
      root_ + "/plans/" + trained->preparations[0].preparation.plan + "/index";
  std::filesystem::resize_file(index, std::filesystem::file_size(index) - 1);
  const auto report = Explain(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->plan_exists);
  EXPECT_THAT(report->notes[0], HasSubstr("made again"));
  ExpectWhatHappens(*report, *trained);
}

TEST_F(ExplainJobTest, ShardsOfSeveralTrainersCountAsBatches) {
  TrainJobOptions options = Diskgnn();
  options.data.trainers = 2;
  const auto report = Explain(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->sampled_batches, 28u);
  EXPECT_EQ(report->total_batches, 28u);
  const auto trained = Run(options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  ExpectWhatHappens(*report, *trained);
}

TEST_F(ExplainJobTest, LeavesNothingBehind) {
  const auto before = Files();
  ASSERT_TRUE(Explain(Diskgnn()).ok());
  EXPECT_EQ(Files(), before);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
  EXPECT_EQ(observer_.running, 1);
  EXPECT_TRUE(observer_.phases.contains("sampling"));
}

TEST_F(ExplainJobTest, AStopEndsItAndLeavesNothing) {
  const auto before = Files();
  std::stop_source stop;
  stop.request_stop();
  auto stopped = Explain(Diskgnn(), 512, stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  stopped = Explain(Options("memory"), 512, stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  EXPECT_EQ(Files(), before);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(ExplainJobTest, TooLittleDiskIsRefusedAsByPreparing) {
  const auto before = Files();
  strategy::DiskgnnOptions diskgnn = Small();
  diskgnn.disk_limit_bytes = 10000;
  const TrainJobOptions options = Diskgnn(diskgnn);
  const auto report = Explain(options);
  EXPECT_TRUE(absl::IsResourceExhausted(report.status())) << report.status();
  EXPECT_EQ(Files(), before);
  EXPECT_EQ(report.status(), Run(options).status());
  // A forecast from a part of the batches is not exact.
  const auto part = Explain(options, 7);
  EXPECT_TRUE(absl::IsResourceExhausted(part.status())) << part.status();
  EXPECT_THAT(std::string(part.status().message()), HasSubstr("disk limit"));
}

TEST_F(ExplainJobTest, BadOptionsAreRefused) {
  TrainJobOptions options = Diskgnn();
  options.data.batch_size = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(Explain(options).status()));
  options = Diskgnn();
  options.data.dataset_path += "-absent";
  EXPECT_TRUE(absl::IsNotFound(Explain(options).status()));
}

TEST_F(ExplainJobTest, OtherStrategiesTellRowsAndMemory) {
  for (const strategy::StrategyOptions& strategy :
       {strategy::StrategyOptions(strategy::MemoryOptions{}),
        strategy::StrategyOptions(strategy::MmapOptions{}),
        strategy::StrategyOptions(
            strategy::GnndriveOptions{.cpu_cache_bytes = 8192})}) {
    SCOPED_TRACE(strategy::Name(strategy));
    TrainJobOptions options = Options(strategy::Name(strategy));
    options.data.strategy = strategy;
    const auto report = Explain(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->sampled_batches, 24u);
    EXPECT_EQ(report->total_batches, 28u);
    EXPECT_FALSE(report->bytes_read.has_value());
    EXPECT_FALSE(report->epoch_seconds.has_value());
    EXPECT_TRUE(report->levels.empty());
    EXPECT_EQ(report->plan, "");
    const auto trained = Run(options);
    ASSERT_TRUE(trained.ok()) << trained.status();
    EXPECT_EQ(
        report->rows_needed,
        static_cast<uint64_t>(std::llround(MeanOf(
            *trained, [](const auto& pass) { return pass.rows_needed; }))));
    EXPECT_EQ(report->memory_bytes, trained->memory.TotalBytes());
  }
}

TEST_F(ExplainJobTest, AJobThatWouldNotFitIsExplained) {
  // Frees the ledger, which the test fills to its limit.
  warm_strategies_.reset();
  memory_ = std::make_unique<MemoryLedger>(uint64_t{320} << 20);
  warm_strategies_ = std::make_unique<WarmStrategies>(
      io::FileSystem::Posix(), *memory_, root_ + "/scratch");
  strategy::DiskgnnOptions diskgnn = Small();
  diskgnn.io_depth = 4096;
  TrainJobOptions options = Diskgnn(diskgnn);
  options.pipeline.extractors = 16;
  options.data.strict_budgets = true;
  const auto report = Explain(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->memory_bytes, uint64_t{400} << 20);
  EXPECT_THAT(report->notes.back(), HasSubstr("would be refused"));
  EXPECT_TRUE(absl::IsResourceExhausted(Run(options).status()));
}

TEST_F(ExplainJobTest, APeriodIsExplainedWhereBatchesAreRefreshed) {
  TrainJobOptions options = Diskgnn();
  options.data.epochs = 7;
  options.data.refresh_epochs = 3;
  options.data.distinct_epochs = 2;
  const auto report = Explain(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->total_batches, 2u * 6 + 4);
  EXPECT_THAT(report->notes.back(), HasSubstr("first of 3 such periods"));
  const auto trained = Run(options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_EQ(report->plan, trained->preparations[0].preparation.plan);
  EXPECT_EQ(*report->disk_bytes,
            trained->preparations[0].preparation.disk_bytes);
}

TEST_F(ExplainJobTest, OnlyTheDataPathIsTimedWithoutAModel) {
  TrainJobOptions options = Diskgnn();
  options.train.model = train::NoModelOptions{};
  const auto report = Explain(options);
  ASSERT_TRUE(report.ok()) << report.status();
  // Without validation and test.
  EXPECT_EQ(report->total_batches, 24u);
  EXPECT_THAT(absl::StrJoin(report->notes, "\n"),
              HasSubstr("a training step takes 0.0000 s"));
}

// A graph with hubs, and more batches than a forecast samples.
class SkewedExplainTest : public ExplainJobTest {
 protected:
  void SetUp() override {
    ExplainJobTest::SetUp();
    Import(
        {.num_nodes = 12000, .in_degree = 12, .hubs = true, .feature_dim = 64});
  }

  // 36 batches of 200 an epoch.
  TrainJobOptions Large(const strategy::DiskgnnOptions& diskgnn) {
    TrainJobOptions options = Diskgnn(diskgnn);
    options.data.batch_size = 200;
    options.data.fanouts = {5, 5};
    options.train.model = train::NoModelOptions{};
    return options;
  }

  void ExpectAboutWhatHappens(const strategy::DiskgnnOptions& diskgnn,
                              int64_t most_batches) {
    const TrainJobOptions options = Large(diskgnn);
    const auto report = Explain(options, most_batches);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->sampled_batches, static_cast<uint64_t>(most_batches));
    EXPECT_EQ(report->total_batches, 144u);
    const auto trained = Run(options);
    ASSERT_TRUE(trained.ok()) << trained.status();
    const auto mean = [&](auto figure) { return MeanOf(*trained, figure); };
    ExpectNear(report->rows_needed,
               mean([](const auto& pass) { return pass.rows_needed; }), 0.03);
    ExpectNear(RowsOf(*report, "cpu_cache"),
               mean([](const auto& pass) { return pass.hits[0].rows; }), 0.1);
    ExpectNear(RowsOf(*report, "disk_cache") + RowsOf(*report, "packs"),
               mean([](const auto& pass) { return *pass.rows_read; }), 0.1);
    ExpectNear(*report->bytes_read,
               mean([](const auto& pass) { return *pass.bytes_read; }), 0.15);
    ExpectNear(
        *report->disk_bytes,
        static_cast<double>(trained->preparations[0].preparation.disk_bytes),
        0.15);
  }
};

TEST_F(SkewedExplainTest, ASampleForecastsPacks) {
  ExpectAboutWhatHappens({.cpu_cache_bytes = 300000}, 16);
}

TEST_F(SkewedExplainTest, ASampleForecastsSegments) {
  ExpectAboutWhatHappens(
      {.cpu_cache_bytes = 300000, .disk_limit_bytes = 27 << 20}, 24);
}

TEST_F(SkewedExplainTest, SegmentsMayBeLargerThanTheSample) {
  ExpectAboutWhatHappens(
      {.cpu_cache_bytes = 300000, .disk_limit_bytes = 14 << 20}, 12);
}

}  // namespace
}  // namespace hearth::job
