// The daemon over its real socket, with models that need no torch.
#include "server/daemon.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/train/null_step.h"
#include "engine/train/train_step.h"
#include "hearth/v1/admin.grpc.pb.h"
#include "hearth/v1/datasets.grpc.pb.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "tests/fixtures/planted_graph.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Lets training batches through: all, or as many as the test gives.
class Gate {
 public:
  void Close() {
    absl::MutexLock lock(&mutex_);
    open_ = false;
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
    changed_.SignalAll();
  }
  void Pass() {
    absl::MutexLock lock(&mutex_);
    ++waiting_;
    changed_.SignalAll();
    while (!open_) changed_.Wait(&mutex_);
    --waiting_;
  }
  // Blocks until a batch waits.
  void AwaitWaiting() {
    absl::MutexLock lock(&mutex_);
    while (waiting_ == 0) changed_.Wait(&mutex_);
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

class GatedStep final : public train::TrainStep {
 public:
  explicit GatedStep(Gate& gate) : gate_(gate) {}
  absl::StatusOr<train::BatchResult> Train(
      const train::BatchView& batch,
      const train::StepPosition& position) override {
    gate_.Pass();
    return step_->Train(batch, position);
  }
  absl::StatusOr<train::BatchResult> Evaluate(
      const train::BatchView& batch) override {
    return step_->Evaluate(batch);
  }
  absl::StatusOr<store::TensorMap> Save() override { return step_->Save(); }
  absl::Status Load(const store::TensorMap& state) override {
    return step_->Load(state);
  }
  absl::StatusOr<store::SafeTensors> Export() override {
    return step_->Export();
  }

 private:
  Gate& gate_;
  const std::unique_ptr<train::TrainStep> step_ = train::NewNullStep();
};

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    config_.data_dir = root_ + "/data";
    config_.listen = "127.0.0.1:0";
    config_.metrics_listen = "127.0.0.1:0";
    EXPECT_TRUE(hearth::testing::WriteNumpyFolder({}, root_ + "/source").ok());
    Start();
  }
  ~DaemonTest() override { gate_.Open(); }

  absl::StatusOr<std::unique_ptr<Daemon>> NewDaemon(const Config& config) {
    return Daemon::Start(config,
                         {.new_train_step =
                              [this](const auto&, const auto&) {
                                return std::make_unique<GatedStep>(gate_);
                              },
                          .torch_version = ""});
  }

  void Start() {
    auto daemon = NewDaemon(config_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    channel_ = grpc::CreateChannel(daemon_->grpc_address(),
                                   grpc::InsecureChannelCredentials());
    jobs_ = v1::Jobs::NewStub(channel_);
    datasets_ = v1::Datasets::NewStub(channel_);
    admin_ = v1::Admin::NewStub(channel_);
  }

  grpc::Status TrySubmit(const v1::JobSpec& spec, v1::Job* job,
                         const std::string& request_id = "") {
    grpc::ClientContext context;
    v1::SubmitJobRequest request;
    request.set_request_id(request_id);
    *request.mutable_spec() = spec;
    return jobs_->SubmitJob(&context, request, job);
  }

  std::string Submit(const v1::JobSpec& spec) {
    v1::Job job;
    const grpc::Status status = TrySubmit(spec, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }

  v1::JobSpec ImportSpec(const std::string& name) {
    v1::JobSpec spec;
    spec.mutable_import()->set_name(name);
    spec.mutable_import()->mutable_numpy()->set_path(root_ + "/source");
    return spec;
  }

  static v1::JobSpec TrainSpec(const std::string& dataset) {
    v1::JobSpec spec;
    v1::DataSpec& data = *spec.mutable_train()->mutable_data();
    data.set_dataset(dataset);
    data.mutable_memory();
    data.mutable_neighbor()->add_fanouts(3);
    data.set_batch_size(64);
    data.set_epochs(2);
    spec.mutable_train()->add_trains()->mutable_sage();
    return spec;
  }

  v1::JobSpec ExportSpec(const std::string& job, const std::string& folder) {
    v1::JobSpec spec;
    spec.mutable_export_()->set_job_id(job);
    spec.mutable_export_()->set_destination(root_ + "/" + folder);
    return spec;
  }

  // Watches a job to its end. Tells when the first event has come.
  grpc::Status Watch(const std::string& id, uint64_t from,
                     std::vector<v1::JobEvent>* events,
                     absl::Notification* begun = nullptr) {
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_id(id);
    request.set_from_sequence(from);
    const auto reader = jobs_->WatchJob(&context, request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
      events->push_back(event);
      if (begun != nullptr && !begun->HasBeenNotified()) begun->Notify();
    }
    return reader->Finish();
  }

  // The job after its end.
  v1::Job AwaitEnd(const std::string& id) {
    std::vector<v1::JobEvent> events;
    const grpc::Status status = Watch(id, 0, &events);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Get(id);
  }

  v1::Job Get(const std::string& id) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_id(id);
    v1::Job job;
    EXPECT_TRUE(jobs_->GetJob(&context, request, &job).ok());
    return job;
  }

  void Import(const std::string& name) {
    const v1::Job job = AwaitEnd(Submit(ImportSpec(name)));
    ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
  }

  grpc::Status DeleteDataset(const std::string& name) {
    grpc::ClientContext context;
    v1::DeleteDatasetRequest request;
    request.set_name(name);
    google::protobuf::Empty empty;
    return datasets_->DeleteDataset(&context, request, &empty);
  }

  grpc::Status DeleteJob(const std::string& id) {
    grpc::ClientContext context;
    v1::DeleteJobRequest request;
    request.set_id(id);
    google::protobuf::Empty empty;
    return jobs_->DeleteJob(&context, request, &empty);
  }

  grpc::Status Cancel(const std::string& id) {
    grpc::ClientContext context;
    v1::CancelJobRequest request;
    request.set_id(id);
    v1::Job job;
    return jobs_->CancelJob(&context, request, &job);
  }

  v1::Status SetDraining(bool draining) {
    grpc::ClientContext context;
    v1::SetDrainingRequest request;
    request.set_draining(draining);
    v1::Status status;
    EXPECT_TRUE(admin_->SetDraining(&context, request, &status).ok());
    return status;
  }

  const std::string root_ = absl::StrCat(
      ::testing::TempDir(), "/daemon_",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  Config config_;
  Gate gate_;
  std::unique_ptr<Daemon> daemon_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> jobs_;
  std::unique_ptr<v1::Datasets::Stub> datasets_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

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

TEST_F(DaemonTest, DatasetsAreListedShownAndDeleted) {
  Import("graph");
  grpc::ClientContext list_context, get_context;
  v1::ListDatasetsResponse list;
  ASSERT_TRUE(datasets_->ListDatasets(&list_context, {}, &list).ok());
  ASSERT_EQ(list.datasets_size(), 1);
  EXPECT_EQ(list.datasets(0).node_types(0).num_nodes(), 600u);
  v1::GetDatasetRequest request;
  request.set_name("graph");
  v1::Dataset dataset;
  ASSERT_TRUE(datasets_->GetDataset(&get_context, request, &dataset).ok());
  EXPECT_EQ(dataset.fingerprint(), list.datasets(0).fingerprint());
  ASSERT_TRUE(DeleteDataset("graph").ok());
  EXPECT_FALSE(fs::exists(config_.data_dir + "/datasets/graph"));
  EXPECT_EQ(DeleteDataset("graph").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(DeleteDataset("../jobs").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(DaemonTest, AnUnknownDatasetIsAnsweredWithThoseThereAre) {
  v1::Job job;
  grpc::Status status = TrySubmit(TrainSpec("nope"), &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("none has been imported"));
  Import("graph");
  status = TrySubmit(TrainSpec("nope"), &job);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("\"nope\""), HasSubstr("there are: graph")));
}

TEST_F(DaemonTest, AFieldAtFaultIsNamedInTheDetails) {
  v1::JobSpec spec = TrainSpec("graph");
  spec.mutable_train()->mutable_data()->set_batch_size(1 << 30);
  v1::Job job;
  grpc::Status status = TrySubmit(spec, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_details(),
              AllOf(HasSubstr("google.rpc.BadRequest"),
                    HasSubstr("train.data.batch_size")));
  status = TrySubmit(spec, &job, std::string(129, 'x'));
  EXPECT_THAT(status.error_message(), HasSubstr("request_id"));
}

TEST_F(DaemonTest, AWatchIsResumedWithoutGapOrDuplicate) {
  Import("graph");
  const std::string id = Submit(TrainSpec("graph"));
  std::vector<v1::JobEvent> all;
  ASSERT_TRUE(Watch(id, 0, &all).ok());
  ASSERT_GE(all.size(), 6u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].sequence(), i + 1);
  EXPECT_EQ(all.front().state().state(), v1::QUEUED);
  EXPECT_EQ(all.back().state().state(), v1::SUCCEEDED);
  std::vector<v1::JobEvent> rest;
  ASSERT_TRUE(Watch(id, 4, &rest).ok());
  ASSERT_EQ(rest.size(), all.size() - 3);
  EXPECT_EQ(rest.front().sequence(), 4u);
  std::vector<v1::JobEvent> none;
  EXPECT_TRUE(Watch(id, 1000, &none).ok());
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(Watch("train-99", 0, &none).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(DaemonTest, ManyWatchersSeeAllOfARunningJob) {
  Import("graph");
  gate_.Close();
  const std::string id = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  std::vector<std::vector<v1::JobEvent>> events(50);
  std::vector<std::jthread> threads;
  for (auto& seen : events) {
    threads.emplace_back([&] { EXPECT_TRUE(Watch(id, 0, &seen).ok()); });
  }
  gate_.Open();
  threads.clear();
  for (const auto& seen : events) {
    ASSERT_EQ(seen.size(), events[0].size());
    EXPECT_EQ(seen.back().state().state(), v1::SUCCEEDED);
  }
}

TEST_F(DaemonTest, AWatchEndsWithItsClientAndTheJobGoesOn) {
  Import("graph");
  gate_.Close();
  const std::string id = Submit(TrainSpec("graph"));
  {
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_id(id);
    const auto reader = jobs_->WatchJob(&context, request);
    v1::JobEvent event;
    ASSERT_TRUE(reader->Read(&event));
    context.TryCancel();
    while (reader->Read(&event)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  gate_.Open();
  EXPECT_EQ(AwaitEnd(id).state(), v1::SUCCEEDED);
}

TEST_F(DaemonTest, RepeatedRequestsGiveOneJob) {
  v1::Job first, again, other;
  ASSERT_TRUE(TrySubmit(ImportSpec("graph"), &first, "r").ok());
  AwaitEnd(first.id());
  ASSERT_TRUE(TrySubmit(ImportSpec("graph"), &again, "r").ok());
  EXPECT_EQ(again.id(), first.id());
  EXPECT_EQ(TrySubmit(ImportSpec("graph2"), &other, "r").error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(DaemonTest, ADatasetNameIsTakenFromTheStartOfItsImport) {
  Import("graph");
  gate_.Close();
  const std::string train = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  v1::Job job;
  EXPECT_EQ(TrySubmit(ImportSpec("graph"), &job).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  const std::string queued = Submit(ImportSpec("other"));
  const grpc::Status status = TrySubmit(ImportSpec("other"), &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_THAT(status.error_message(), HasSubstr(queued));
}

TEST_F(DaemonTest, WhatAJobUsesCannotBeDeleted) {
  Import("graph");
  gate_.Close();
  const std::string id = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  const grpc::Status status = DeleteDataset("graph");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr(id));
  EXPECT_EQ(DeleteJob(id).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  gate_.Open();
  AwaitEnd(id);
  EXPECT_TRUE(fs::exists(config_.data_dir + "/jobs/" + id));
  ASSERT_TRUE(DeleteJob(id).ok());
  EXPECT_FALSE(fs::exists(config_.data_dir + "/jobs/" + id));
  EXPECT_TRUE(DeleteDataset("graph").ok());
}

TEST_F(DaemonTest, OnlyModelsAreExported) {
  Import("graph");
  v1::Job job;
  EXPECT_EQ(TrySubmit(ExportSpec("import-1", "m"), &job).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(TrySubmit(ExportSpec("train-9", "m"), &job).error_code(),
            grpc::StatusCode::NOT_FOUND);
  v1::JobSpec none = TrainSpec("graph");
  none.mutable_train()->mutable_trains(0)->mutable_none();
  const std::string id = Submit(none);
  ASSERT_EQ(AwaitEnd(id).state(), v1::SUCCEEDED);
  EXPECT_THAT(TrySubmit(ExportSpec(id, "m"), &job).error_message(),
              HasSubstr("no model"));
  const std::string real = Submit(TrainSpec("graph"));
  AwaitEnd(real);
  EXPECT_EQ(TrySubmit(ExportSpec(real, "source"), &job).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(DaemonTest, ARunningJobIsCancelledAtTheNextBatch) {
  Import("graph");
  gate_.Close();
  const std::string id = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  ASSERT_TRUE(Cancel(id).ok());
  gate_.Open();
  EXPECT_EQ(AwaitEnd(id).state(), v1::CANCELLED);
  EXPECT_TRUE(Cancel(id).ok());
  EXPECT_EQ(Cancel("train-99").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(DaemonTest, ABadImportFailsNamingTheFile) {
  fs::resize_file(root_ + "/source/node_feat.npy", 1000);
  const v1::Job job = AwaitEnd(Submit(ImportSpec("graph")));
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_THAT(job.error().message(), HasSubstr("node_feat.npy"));
  EXPECT_FALSE(fs::exists(config_.data_dir + "/datasets/graph"));
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

TEST_F(DaemonTest, JobsAreListedInPages) {
  Import("graph");
  for (int i = 0; i < 3; ++i) AwaitEnd(Submit(TrainSpec("graph")));
  v1::ListJobsRequest request;
  request.set_page_size(2);
  request.add_states(v1::SUCCEEDED);
  v1::ListJobsResponse page;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(jobs_->ListJobs(&context, request, &page).ok());
  }
  ASSERT_EQ(page.jobs_size(), 2);
  EXPECT_EQ(page.jobs(0).id(), "train-4");
  request.set_page_token(page.next_page_token());
  grpc::ClientContext context;
  ASSERT_TRUE(jobs_->ListJobs(&context, request, &page).ok());
  EXPECT_EQ(page.jobs_size(), 2);
  EXPECT_EQ(page.next_page_token(), "");
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
  spec.mutable_import()->mutable_numpy()->set_path(std::string(2 << 20, '/'));
  v1::Job job;
  EXPECT_EQ(TrySubmit(spec, &job).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace hearth::server
