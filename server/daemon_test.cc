// Whole daemon, from start to stop, over its real socket.
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
#include "server/testing/test_daemon.h"

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

TEST_F(DaemonTest, APlanWaitsForTheSpaceOfPlansInUse) {
  Import("graph");
  v1::JobSpec spec = TrainSpec("graph");
  spec.mutable_train()->mutable_data()->mutable_diskgnn();
  ASSERT_EQ(AwaitEnd(Submit(spec)).state(), v1::SUCCEEDED);
  const uint64_t size = SetDraining(false).plan_bytes();
  ASSERT_GT(size, 0u);
  daemon_.reset();
  // Space for one plan and the samples of another.
  config_.plan_space_bytes = (1 << 20) + size / 2;
  config_.max_running_jobs = 2;
  config_.first_wait_pause = absl::Hours(1);
  fs::remove_all(config_.data_dir + "/plans");
  Start();
  gate_.Close();
  const std::string first = Submit(spec);
  gate_.AwaitWaiting();
  spec.mutable_train()->mutable_data()->set_data_seed(7);
  const std::string second = Submit(spec);
  const v1::StateChange change = AwaitEndOrWait(second);
  EXPECT_EQ(change.state(), v1::WAITING);
  EXPECT_THAT(change.waiting_reason(), HasSubstr("plan space: "));
  gate_.Open();
  for (const std::string& id : {first, second}) {
    const v1::Job job = AwaitEnd(id);
    EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
  }
  // A plan that exceeds the space for all plans is refused at once.
  daemon_.reset();
  config_.plan_space_bytes = 1000;
  Start();
  spec.mutable_train()->mutable_data()->set_data_seed(8);
  const v1::Job refused = AwaitEnd(Submit(spec));
  EXPECT_EQ(refused.state(), v1::FAILED);
  EXPECT_EQ(refused.error().code(), grpc::RESOURCE_EXHAUSTED);
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

TEST_F(DaemonTest, FoldersOfNoJobAreSetAsideAtTheNextStart) {
  daemon_.reset();
  const std::string folder = config_.data_dir + "/jobs/train-77";
  fs::create_directories(folder + "/model");
  Start();
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(fs::exists(config_.data_dir + "/lost+found/train-77"));
  const v1::Status status = SetDraining(false);
  ASSERT_EQ(status.warnings_size(), 1);
  EXPECT_THAT(status.warnings(0), HasSubstr("train-77"));
}

TEST_F(DaemonTest, WithoutItsDatabaseNothingButEventsIsLost) {
  Import("graph");
  const std::string trained = Submit(TrainSpec("graph"));
  const std::string digest = AwaitEnd(trained).report().train().loss_digest();
  gate_.Close();
  const std::string running = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  EXPECT_FALSE(daemon_->Stop(absl::ZeroDuration()).ok());
  gate_.Open();
  daemon_.reset();
  for (const char* suffix : {"", "-wal", "-shm"}) {
    fs::remove(config_.data_dir + "/hearth.db" + suffix);
  }
  Start();
  EXPECT_EQ(SetDraining(false).warnings_size(), 1);
  EXPECT_EQ(Get(trained).report().train().loss_digest(), digest);
  const v1::Job again = AwaitEnd(running);
  EXPECT_EQ(again.state(), v1::SUCCEEDED) << again.error().message();
  EXPECT_EQ(again.report().train().loss_digest(), digest);
  const v1::Job exported = AwaitEnd(Submit(ExportSpec(trained, "model")));
  EXPECT_EQ(exported.state(), v1::SUCCEEDED) << exported.error().message();
}

TEST_F(DaemonTest, ABackupTakesThePlaceOfTheDataDirectory) {
  Import("graph");
  const std::string trained = Submit(TrainSpec("graph"));
  const std::string digest = AwaitEnd(trained).report().train().loss_digest();
  gate_.Close();
  const std::string running = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  {
    grpc::ClientContext context;
    v1::BackupRequest request;
    request.set_destination(root_ + "/backup");
    v1::BackupReport report;
    const grpc::Status status = admin_->Backup(&context, request, &report);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(report.jobs(), 3u);
    EXPECT_EQ(report.models(), 1u);
  }
  gate_.Open();
  AwaitEnd(running);
  daemon_.reset();
  fs::remove_all(config_.data_dir);
  config_.data_dir = root_ + "/backup";
  Start();
  EXPECT_EQ(Get(trained).report().train().loss_digest(), digest);
  // The interrupted job runs again, and fails without its dataset.
  EXPECT_EQ(AwaitEnd(running).state(), v1::FAILED);
  const v1::Job exported = AwaitEnd(Submit(ExportSpec(trained, "model")));
  EXPECT_EQ(exported.state(), v1::SUCCEEDED) << exported.error().message();
  EXPECT_TRUE(fs::exists(root_ + "/model/config.json"));
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

TEST_F(DaemonTest, RootsAreHonoured) {
  Import("planted");
  const std::string trained = Submit(TrainSpec("planted"));
  EXPECT_EQ(AwaitEnd(trained).state(), v1::SUCCEEDED);
  daemon_.reset();
  std::filesystem::create_directories(root_ + "/elsewhere");
  config_.import_roots = {root_ + "/elsewhere"};
  config_.export_roots = {root_ + "/elsewhere"};
  Start();
  v1::Job job;
  EXPECT_EQ(TrySubmit(ImportSpec("graph"), &job).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(TrySubmit(ExportSpec(trained, "model"), &job).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  const v1::Job exported =
      AwaitEnd(Submit(ExportSpec(trained, "elsewhere/model")));
  EXPECT_EQ(exported.state(), v1::SUCCEEDED) << exported.error().message();
}

TEST_F(DaemonTest, ARootThatIsMissingIsNamed) {
  daemon_.reset();
  config_.import_roots = {root_ + "/none"};
  const auto daemon = NewDaemon(config_);
  EXPECT_EQ(daemon.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(daemon.status().message()),
              HasSubstr(root_ + "/none"));
}

// Callers over loopback own the jobs that they submit; the audit log names
// them.
TEST_F(DaemonTest, JobsHaveOwners) {
  const std::string id = Submit(ImportSpec("graph"));
  EXPECT_EQ(AwaitEnd(id).owner(), "local");
  std::ifstream file(config_.data_dir + "/audit.log");
  const std::string audit{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(audit, HasSubstr("\"method\":\"Jobs/SubmitJob\",\"target\":\"" +
                               id + "\",\"result\":\"OK\""));
}

TEST_F(DaemonTest, OversizedMessagesAreRefused) {
  v1::JobSpec spec = ImportSpec("graph");
  spec.mutable_import()->set_path(std::string(5 << 20, '/'));
  v1::Job job;
  EXPECT_EQ(TrySubmit(spec, &job).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  // A message that gRPC accepts may still be too large for a spec.
  spec.mutable_import()->set_path(std::string(64 << 10, '/'));
  EXPECT_EQ(TrySubmit(spec, &job).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(DaemonTest, ShortJobsRunBesideTraining) {
  Import("graph");
  gate_.Close();
  const std::string train = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  v1::JobSpec explain;
  *explain.mutable_explain()->mutable_train() = TrainSpec("graph").train();
  // A step that is timed would wait at the gate.
  explain.mutable_explain()->mutable_train()->mutable_trains(0)->mutable_none();
  EXPECT_EQ(AwaitEnd(Submit(explain)).state(), v1::SUCCEEDED);
  v1::JobSpec verify;
  verify.mutable_verify()->set_dataset("graph");
  EXPECT_EQ(AwaitEnd(Submit(verify)).state(), v1::SUCCEEDED);
  Import("other");
  EXPECT_EQ(Get(train).state(), v1::RUNNING);
  gate_.Open();
  EXPECT_EQ(AwaitEnd(train).state(), v1::SUCCEEDED);
}

// Makes one kind of call wait until the test clears it.
io::Fault Block(io::Operation operation, const std::string& path_end = "") {
  return {.for_good = true,
          .effect = io::Effect::kBlock,
          .only = operation,
          .path_end = path_end};
}

TEST_F(DaemonTest, NobodyWaitsForARemoval) {
  Import("graph");
  Import("other");
  const v1::Job trained = AwaitEnd(Submit(TrainSpec("graph")));
  gate_.Close();
  const std::string running = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  files_.Inject(Block(io::Operation::kRemoveTree, "features.npy"));
  ASSERT_TRUE(DeleteDataset("other").ok());
  files_.AwaitHit();
  EXPECT_EQ(SetDraining(false).datasets(), 1u);
  Import("other");
  ASSERT_TRUE(DeleteJob(trained.id()).ok());
  ASSERT_TRUE(Cancel(running).ok());
  gate_.Open();
  EXPECT_EQ(AwaitEnd(running).state(), v1::CANCELLED);
  EXPECT_TRUE(daemon_->Stop(absl::Seconds(60)).ok());
  files_.Clear();
}

TEST_F(DaemonTest, NobodyWaitsForTheFilesOfASubmission) {
  Import("graph");
  gate_.Close();
  const std::string running = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  files_.Inject(Block(io::Operation::kStat, "/datasets/slow"));
  v1::Job slow;
  grpc::Status submitted;
  std::jthread submission(
      [&] { submitted = TrySubmit(ImportSpec("slow"), &slow, "request"); });
  files_.AwaitHit();
  EXPECT_FALSE(SetDraining(false).draining());
  Import("other");
  EXPECT_EQ(DeleteDataset("slow").error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(Cancel(running).ok());
  gate_.Open();
  EXPECT_EQ(AwaitEnd(running).state(), v1::CANCELLED);
  // The same request waits for the first one, and gets its job.
  v1::Job same;
  std::jthread repeated([&] {
    EXPECT_TRUE(TrySubmit(ImportSpec("slow"), &same, "request").ok());
  });
  files_.Clear();
  submission.join();
  repeated.join();
  EXPECT_TRUE(submitted.ok()) << submitted.error_message();
  EXPECT_EQ(same.id(), slow.id());
  EXPECT_EQ(AwaitEnd(slow.id()).state(), v1::SUCCEEDED);
}

TEST_F(DaemonTest, ADeletionIsDoneOncePerRequest) {
  Import("graph");
  EXPECT_EQ(DeleteDataset("none", "first").error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(DeleteDataset("none", "first").error_code(),
            grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(DeleteDataset("graph", "second").ok());
  EXPECT_TRUE(DeleteDataset("graph", "second").ok());
  EXPECT_EQ(DeleteDataset("graph").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(DeleteDataset("graph", "third").error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(DeleteDataset("other", "second").error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  // A later dataset of this name stays, also after a restart.
  Import("graph");
  daemon_.reset();
  Start();
  EXPECT_TRUE(DeleteDataset("graph", "second").ok());
  EXPECT_EQ(SetDraining(false).datasets(), 1u);
  ASSERT_TRUE(DeleteJob("import-1", "fourth").ok());
  EXPECT_TRUE(DeleteJob("import-1", "fourth").ok());
  EXPECT_EQ(DeleteJob("import-1", "fifth").error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(DaemonTest, PrioritiesAreKeptAndBounded) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = ImportSpec("graph");
  const auto submit = [&](int priority, v1::Job* job) {
    grpc::ClientContext context;
    request.set_priority(priority);
    return jobs_->SubmitJob(&context, request, job);
  };
  v1::Job job;
  for (const int priority : {-101, 101}) {
    const grpc::Status status = submit(priority, &job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("priority"));
  }
  ASSERT_TRUE(submit(-100, &job).ok());
  EXPECT_EQ(job.priority(), -100);
  EXPECT_EQ(AwaitEnd(job.id()).priority(), -100);
}

}  // namespace
}  // namespace hearth::server
