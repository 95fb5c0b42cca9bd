// A whole daemon, from start to stop, over its real socket.
#include "server/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/daemon_fixture.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(DaemonTest, ImportsTrainsAndExports) {
  Import("graph");
  const v1::Job train = AwaitEnd(Submit(TrainSpec("graph")));
  ASSERT_EQ(train.state(), v1::SUCCEEDED) << train.error().message();
  EXPECT_EQ(train.id(), "train-2");
  EXPECT_EQ(train.report().train().epochs_size(), 2);
  EXPECT_EQ(train.spec().train().data().distinct_epochs(), 2u);
  const v1::Job exported = AwaitEnd(Submit(ExportSpec(train.id(), "model")));
  ASSERT_EQ(exported.state(), v1::SUCCEEDED) << exported.error().message();
  EXPECT_EQ(exported.report().export_().path(), root_ + "/model");
  EXPECT_TRUE(fs::exists(root_ + "/model/config.json"));
}

TEST_F(DaemonTest, DrainingRefusesNewJobsAlone) {
  Import("graph");
  EXPECT_TRUE(SetDraining(true).draining());
  v1::Job job;
  EXPECT_EQ(TrySubmit(TrainSpec("graph"), &job).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Get("import-1").state(), v1::SUCCEEDED);
  EXPECT_FALSE(SetDraining(false).draining());
  EXPECT_TRUE(TrySubmit(TrainSpec("graph"), &job).ok());
  AwaitEnd(job.id());
}

TEST_F(DaemonTest, StatusTellsWhatThereIs) {
  Import("graph");
  const v1::Status status = SetDraining(false);
  EXPECT_EQ(status.pid(), getpid());
  EXPECT_EQ(status.data_dir(), config_.data_dir);
  EXPECT_EQ(status.metrics_address(), daemon_->metrics_address());
  EXPECT_EQ(status.datasets(), 1u);
  EXPECT_EQ(status.max_running_jobs(), 1u);
  EXPECT_GT(status.memory_bytes(), 0u);
  EXPECT_GT(status.disk_free_bytes(), 0u);
  EXPECT_GT(status.start_time().seconds(), 0);
}

TEST_F(DaemonTest, AStopEndsWatchesAndTheJobGoesOnAfterARestart) {
  Import("graph");
  gate_.Close();
  const std::string id = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  std::vector<v1::JobEvent> events;
  grpc::Status watched;
  absl::Notification begun;
  std::jthread watcher([&] { watched = Watch(id, 0, &events, &begun); });
  begun.WaitForNotification();
  EXPECT_EQ(daemon_->Stop(absl::ZeroDuration()).code(),
            absl::StatusCode::kDeadlineExceeded);
  watcher.join();
  EXPECT_EQ(watched.error_code(), grpc::StatusCode::UNAVAILABLE);
  gate_.Open();
  ASSERT_TRUE(daemon_->Stop(absl::InfiniteDuration()).ok());
  daemon_.reset();
  Start();
  ASSERT_TRUE(Watch(id, events.back().sequence() + 1, &events).ok());
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), i + 1);
  }
  const v1::Job job = Get(id);
  EXPECT_EQ(job.state(), v1::SUCCEEDED);
  EXPECT_EQ(job.report().train().epochs_size(), 2);
}

TEST_F(DaemonTest, FoldersOfForgottenJobsGoAtTheNextStart) {
  daemon_.reset();
  fs::create_directories(config_.data_dir + "/jobs/train-77");
  Start();
  EXPECT_FALSE(fs::exists(config_.data_dir + "/jobs/train-77"));
}

TEST_F(DaemonTest, ASecondDaemonIsRefused) {
  const auto same_data = NewDaemon(config_);
  EXPECT_EQ(same_data.status().code(), absl::StatusCode::kUnavailable);
  Config config = config_;
  config.data_dir = root_ + "/data2";
  config.listen = daemon_->grpc_address();
  const auto same_port = NewDaemon(config);
  EXPECT_EQ(same_port.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(same_port.status().message()),
              HasSubstr(config.listen));
  config.listen = "127.0.0.1:0";
  config.metrics_listen = daemon_->metrics_address();
  const auto same_metrics = NewDaemon(config);
  EXPECT_THAT(std::string(same_metrics.status().message()),
              HasSubstr(config.metrics_listen));
}

TEST_F(DaemonTest, TheAddressFileHoldsThePortsTaken) {
  daemon_.reset();
  config_.address_file = root_ + "/address.json";
  Start();
  std::ifstream file(config_.address_file);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, AllOf(HasSubstr(daemon_->grpc_address()),
                          HasSubstr(daemon_->metrics_address()),
                          HasSubstr(absl::StrCat(getpid()))));
}

TEST_F(DaemonTest, ImportRootsAreHonoured) {
  daemon_.reset();
  config_.import_roots = {root_ + "/elsewhere"};
  Start();
  v1::Job job;
  EXPECT_EQ(TrySubmit(ImportSpec("graph"), &job).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(DaemonTest, OversizedMessagesAreRefused) {
  v1::JobSpec spec = ImportSpec("graph");
  spec.mutable_import()->set_path(std::string(2 << 20, '/'));
  v1::Job job;
  EXPECT_EQ(TrySubmit(spec, &job).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace hearth::server
