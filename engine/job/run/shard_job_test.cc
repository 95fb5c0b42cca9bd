#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/run/job_fixture.h"
#include "engine/job/run/train_job.h"
#include "engine/strategy/kinds.h"
#include "tests/fixtures/graphs.h"
#include "tests/fixtures/shards.h"

namespace hearth::job {
namespace {

using ::testing::HasSubstr;

// Jobs on a shard of a dataset, whose other rows are elsewhere.
class ShardJobTest : public JobTest {
 protected:
  absl::StatusOr<TrainReport> Train(const strategy::StrategyOptions& strategy,
                                    const std::string& dataset,
                                    std::shared_ptr<store::RemoteRows> rows,
                                    const std::string& directory) {
    TrainJobOptions options = Options(directory);
    options.data.dataset_path = dataset;
    options.data.strategy = strategy;
    JobEnvironment environment = Environment();
    environment.remote_rows = std::move(rows);
    const auto metrics = NewTrainMetrics(*registry_, directory, "memory");
    return RunTrainJob(environment, options, observer_, *metrics, {});
  }

  std::string Shard(int64_t index, int64_t count) {
    const std::string path = root_ + "/shard";
    std::filesystem::remove_all(path);
    const absl::Status made =
        hearth::testing::MakeShard(dataset_, path, index, count);
    EXPECT_TRUE(made.ok()) << made;
    // Plans have the same names as those of the whole dataset.
    std::filesystem::remove_all(root_ + "/plans");
    elsewhere_ = std::make_shared<hearth::testing::RowsElsewhere>(dataset_);
    return path;
  }

  void ExpectSameLosses(const strategy::StrategyOptions& strategy) {
    std::filesystem::remove_all(root_ + "/whole");
    const auto whole = Train(strategy, dataset_, nullptr, "whole");
    ASSERT_TRUE(whole.ok()) << whole.status();
    for (const int64_t index : {0, 1, 2}) {
      const std::string path = Shard(index, 3);
      std::filesystem::remove_all(root_ + "/shard" + std::to_string(index));
      const auto shard =
          Train(strategy, path, elsewhere_, "shard" + std::to_string(index));
      ASSERT_TRUE(shard.ok()) << shard.status();
      EXPECT_EQ(shard->loss_digest, whole->loss_digest);
      EXPECT_EQ(shard->test_metric, whole->test_metric);
      EXPECT_GT(elsewhere_->rows_read, 0);
    }
  }

  std::shared_ptr<hearth::testing::RowsElsewhere> elsewhere_;
};

const strategy::DiskgnnOptions kDiskgnn = {.cpu_cache_bytes = 4'000,
                                           .disk_cache_bytes = 8'000};
const strategy::ForesightOptions kForesight = {.cpu_cache_bytes = 8'000};

TEST_F(ShardJobTest, DiskgnnTrainsAsOnTheWholeDataset) {
  ExpectSameLosses(kDiskgnn);
}

TEST_F(ShardJobTest, ForesightTrainsAsOnTheWholeDataset) {
  ExpectSameLosses(kForesight);
}

TEST_F(ShardJobTest, RowsOf16BitsDoSo) {
  Import({.feature_dim = 31, .half_features = true});
  ExpectSameLosses(kDiskgnn);
  ExpectSameLosses(kForesight);
}

TEST_F(ShardJobTest, AForesightJobInTheMiddleFillsItsCacheFromElsewhere) {
  const auto whole = Train(kForesight, dataset_, nullptr, "whole");
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string shard = Shard(1, 3);
  std::stop_source stop;
  observer_.act_at = observer_.training_batches + 9;
  observer_.act = [&] { stop.request_stop(); };
  TrainJobOptions options = Options("stopped");
  options.data.dataset_path = shard;
  options.data.strategy = kForesight;
  JobEnvironment environment = Environment();
  environment.remote_rows = elsewhere_;
  const auto metrics = NewTrainMetrics(*registry_, "stopped", "memory");
  const auto stopped =
      RunTrainJob(environment, options, observer_, *metrics, stop.get_token());
  ASSERT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  const int64_t readers = elsewhere_->readers;
  const auto report =
      RunTrainJob(environment, options, observer_, *metrics, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, whole->loss_digest);
  EXPECT_GT(elsewhere_->readers, readers);
}

TEST_F(ShardJobTest, AMachineThatIsGoneMakesTheJobWait) {
  for (const strategy::StrategyOptions& strategy :
       std::vector<strategy::StrategyOptions>{kDiskgnn, kForesight}) {
    const std::string shard = Shard(0, 2);
    elsewhere_->error = WaitForPeerError("host-b: is gone");
    const absl::Status status =
        Train(strategy, shard, elsewhere_, "waits").status();
    EXPECT_EQ(WaitCauseOf(status), WaitCause::kPeer) << status;
    elsewhere_->error = absl::OkStatus();
    EXPECT_TRUE(Train(strategy, shard, elsewhere_, "waits").ok());
  }
}

TEST_F(ShardJobTest, RowsThatCameDamagedAreAnError) {
  const std::string shard = Shard(0, 2);
  elsewhere_->error = absl::DataLossError("host-b: came damaged");
  for (const strategy::StrategyOptions& strategy :
       std::vector<strategy::StrategyOptions>{kDiskgnn, kForesight}) {
    const absl::Status status =
        Train(strategy, shard, elsewhere_, "damaged").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
}

TEST_F(ShardJobTest, WhatDoesNotPackIsRefused) {
  const std::string shard = Shard(0, 2);
  for (const absl::Status& status :
       {Train(strategy::GnndriveOptions(), shard, elsewhere_, "a").status(),
        Train(kDiskgnn, shard, nullptr, "b").status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("--strategy diskgnn or foresight"));
  }
}

}  // namespace
}  // namespace hearth::job
