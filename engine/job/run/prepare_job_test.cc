#include <algorithm>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/job/run/job_fixture.h"
#include "engine/job/run/train_job.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::HasSubstr;

class PrepareJobTest : public JobTest {
 protected:
  TrainJobOptions Diskgnn(const std::string& directory) const {
    TrainJobOptions options = Options(directory);
    options.data.strategy = strategy::DiskgnnOptions{.cpu_cache_bytes = 8192};
    return options;
  }

  absl::StatusOr<PrepareReport> Prepare(const TrainJobOptions& like,
                                        std::stop_token stop = {}) {
    const JobEnvironment environment = Environment();
    return RunPrepareJob(environment,
                         {.data = like.data, .pipeline = like.pipeline},
                         observer_, std::move(stop));
  }
};

TEST_F(PrepareJobTest, TrainingFindsWhatWasPrepared) {
  const TrainJobOptions options = Diskgnn("a");
  const auto prepared = Prepare(options);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_TRUE(prepared->preparation.has_value());
  const strategy::PreparationReport& made = *prepared->preparation;
  EXPECT_FALSE(made.reused);
  EXPECT_GT(made.disk_bytes, 0u);
  EXPECT_THAT(made.reason, HasSubstr("segments of"));
  EXPECT_LE(prepared->peak_memory_bytes, prepared->memory_bound_bytes);
  EXPECT_EQ(observer_.running, 1);
  EXPECT_TRUE(observer_.phases.contains("sampling"));
  EXPECT_FALSE(plans_->Get(prepared->preparation->plan)->in_use);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);

  const auto trained = Run(options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_TRUE(trained->warm_start);
  ASSERT_EQ(trained->preparations.size(), 1u);
  EXPECT_TRUE(trained->preparations[0].preparation.reused);
  EXPECT_EQ(trained->preparations[0].preparation.plan,
            prepared->preparation->plan);
  EXPECT_EQ(trained->loss_digest, Run(Options("m"))->loss_digest);
}

TEST_F(PrepareJobTest, APartitionIsMadeBesideTheLabelsAndTheSplit) {
  TrainJobOptions options = Options("a");
  options.data.partition_order = PartitionOrder{.parts = 8};
  const auto prepared = Prepare(options);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const auto bytes_of = [&](const std::string& owner) {
    uint64_t bytes = 0;
    for (const strategy::MemoryShare& share : prepared->memory.shares) {
      if (share.owner == owner) bytes += share.bytes;
    }
    return bytes;
  };
  const auto dataset =
      store::Dataset::Open(io::FileSystem::Posix(), options.data.dataset_path);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const store::NodeTypeEntry& nodes = (*dataset)->manifest().node_types[0];
  EXPECT_GE(bytes_of("labels"), nodes.num_nodes * sizeof(int32_t));
  EXPECT_GE(bytes_of("seeds"),
            3 * sizeof(store::NodeId) * (*dataset)->LoadSplit()->train.size());
  EXPECT_GT(bytes_of("partitioning"), 0u);
}

TEST_F(PrepareJobTest, APlanWithAHistoryIsThatOfTheModelsWidth) {
  TrainJobOptions options = Diskgnn("a");
  options.train.model = train::SageOptions{.hidden = 12};
  options.data.history = HistoryOptions{.cache_bytes = 16 << 10};
  const JobEnvironment environment = Environment();
  const auto prepared = RunPrepareJob(environment,
                                      {.data = options.data,
                                       .pipeline = options.pipeline,
                                       .embedding_width = 12},
                                      observer_, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const auto trained = Run(options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_TRUE(trained->preparations.at(0).preparation.reused);
}

TEST_F(PrepareJobTest, WithoutEvaluationItIsThePlanOfJobsWithoutAModel) {
  TrainJobOptions options = Diskgnn("a");
  options.train.model = train::NoModelOptions{};
  const JobEnvironment environment = Environment();
  const auto prepared = RunPrepareJob(environment,
                                      {.data = options.data,
                                       .pipeline = options.pipeline,
                                       .training_only = true},
                                      observer_, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const auto trained = Run(options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  EXPECT_TRUE(trained->preparations.at(0).preparation.reused);
}

TEST_F(PrepareJobTest, ADeletedPlanIsMadeAnewAlsoByAWarmStrategy) {
  const TrainJobOptions options = Diskgnn("a");
  const auto prepared = Prepare(options);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_EQ(plans_->Remove(prepared->preparation->plan), absl::OkStatus());
  const auto again = Prepare(options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->preparation->reused);
}

TEST_F(PrepareJobTest, OptionsAreChecked) {
  TrainJobOptions options = Diskgnn("a");
  options.data.batch_size = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(Prepare(options).status()));
  options = Diskgnn("a");
  options.pipeline.samplers = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(Prepare(options).status()));
}

TEST_F(PrepareJobTest, APartitionIsMadeOnceAndFoundByEveryStrategy) {
  TrainJobOptions options = Options("memory");
  options.data.partition_order =
      PartitionOrder{.parts = 12, .macro_batch_parts = 3};
  const JobEnvironment environment = Environment();
  const auto prepared = RunPrepareJob(environment,
                                      {.data = options.data,
                                       .pipeline = options.pipeline,
                                       .partition_only = true},
                                      observer_, {});
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_FALSE(prepared->preparation.has_value());
  ASSERT_TRUE(prepared->partition.has_value());
  EXPECT_FALSE(prepared->partition->reused);
  EXPECT_THAT(prepared->partition->reason, HasSubstr("12 parts of"));
  EXPECT_LE(prepared->peak_memory_bytes, prepared->memory_bound_bytes);
  EXPECT_GT(observer_.durable, 0);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
  EXPECT_FALSE(plans_->Get(prepared->partition->plan)->in_use);

  const auto expected = Run(options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_TRUE(expected->partition->reused);
  EXPECT_EQ(expected->partition->plan, prepared->partition->plan);
  EXPECT_NE(expected->loss_digest, Run(Options("shuffled"))->loss_digest);
  for (const auto& strategy : std::vector<strategy::StrategyOptions>{
           strategy::MmapOptions{},
           strategy::GnndriveOptions{.cpu_cache_bytes = 65536},
           strategy::GinexOptions{.cpu_cache_bytes = 65536},
           strategy::DiskgnnOptions{.cpu_cache_bytes = 8192}}) {
    options.data.strategy = strategy;
    options.directory = root_ + "/" + strategy::Name(strategy);
    const auto report = Run(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loss_digest, expected->loss_digest)
        << strategy::Name(strategy);
  }
}

TEST_F(PrepareJobTest, APartitionOfOnePartIsTheShuffledOrder) {
  TrainJobOptions options = Options("one");
  options.data.partition_order = PartitionOrder{.parts = 1};
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, Run(Options("shuffled"))->loss_digest);
  options.data.partition_order->parts = 1 << 20;
  EXPECT_TRUE(absl::IsInvalidArgument(Run(options).status()));
}

TEST_F(PrepareJobTest, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = Prepare(Diskgnn("a"), stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
}

class RefreshTest : public PrepareJobTest {
 protected:
  // Epochs 0 1 2 | 3 4 5 | 6, with keys 0 1 0 | 2 3 2 | 4.
  static TrainJobOptions Refreshed(TrainJobOptions options) {
    options.data.epochs = 7;
    options.data.refresh_epochs = 3;
    options.data.distinct_epochs = 2;
    return options;
  }
};

TEST_F(RefreshTest, GivesTheBatchesOfMemory) {
  const auto expected = Run(Refreshed(Options("memory")));
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_TRUE(expected->preparations.empty());
  const auto report = Run(Refreshed(Diskgnn("diskgnn")));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, expected->loss_digest);
  EXPECT_EQ(report->test_metric, expected->test_metric);
  ASSERT_EQ(report->preparations.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(report->preparations[i].first_epoch, 1 + 3 * i);
    EXPECT_FALSE(report->preparations[i].preparation.reused);
    EXPECT_GT(report->preparations[i].preparation.seconds, 0);
  }
  EXPECT_THAT(observer_.log, HasSubstr("ahead: "));
  EXPECT_EQ(plans_->List()->size(), 3u);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
  // A second job finds all plans.
  const auto second = Run(Refreshed(Diskgnn("second")));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->loss_digest, expected->loss_digest);
  for (const PeriodPreparation& period : second->preparations) {
    EXPECT_TRUE(period.preparation.reused);
  }
}

TEST_F(RefreshTest, NewKeysAreNewBatches) {
  TrainJobOptions options = Options("a");
  options.data.distinct_epochs = 1;
  const auto repeated = Run(options);
  options.directory += "2";
  options.data.refresh_epochs = 2;
  const auto refreshed = Run(options);
  ASSERT_TRUE(repeated.ok() && refreshed.ok());
  EXPECT_EQ(repeated->epochs[1].loss, refreshed->epochs[1].loss);
  EXPECT_NE(repeated->epochs[2].loss, refreshed->epochs[2].loss);
}

TEST_F(RefreshTest, StoppedAnywhereItGoesOnAsIfUndisturbed) {
  const auto expected = Run(Refreshed(Options("memory")));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int64_t batch : {1, 11, 18, 19, 35, 37, 42}) {
    const TrainJobOptions options =
        Refreshed(Diskgnn("stop" + std::to_string(batch)));
    std::stop_source stop;
    observer_.act_at = batch;
    observer_.training_batches = 0;
    observer_.act = [&stop] { stop.request_stop(); };
    const auto stopped = Run(options, stop.get_token());
    ASSERT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
    observer_.act_at = -1;
    const auto report = Run(options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loss_digest, expected->loss_digest) << batch;
  }
}

TEST_F(RefreshTest, WhatFailsAheadIsDoneWhereItIsNeeded) {
  TrainJobOptions options = Refreshed(Diskgnn("a"));
  const auto whole = Run(options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  uint64_t largest = 0;
  const auto plans = plans_->List();
  for (const plan::PlanInfo& plan : *plans) {
    largest = std::max(largest, plan.size_bytes);
  }
  // Plans of two periods do not fit together: the second one is made when the
  // first period is over.
  warm_strategies_->Forget(dataset_);
  plans_ = std::make_unique<plan::PlanStore>(
      io::FileSystem::Posix(), Clock::Real(),
      plan::PlanStore::Options{
          .folder = root_ + "/fewer",
          .space_bytes = (uint64_t{1} << 20) + largest / 2});
  options.directory += "2";
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, whole->loss_digest);
  EXPECT_EQ(report->preparations.size(), 3u);
  EXPECT_EQ(plans_->List()->size(), 1u);
}

}  // namespace
}  // namespace hearth::job
