#ifndef HEARTH_SERVER_TESTING_TEST_DAEMON_H_
#define HEARTH_SERVER_TESTING_TEST_DAEMON_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/train/train_step.h"
#include "hearth/v1/admin.grpc.pb.h"
#include "hearth/v1/datasets.grpc.pb.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "hearth/v1/plans.grpc.pb.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/storage/testing/faulty_vfs.h"
#include "tests/conformance/test_pass.h"
#include "tests/fixtures/graphs.h"

namespace hearth::server {

/// Lets training batches pass, or holds them back. Thread-safe.
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
  /// Blocks until a batch waits.
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

/// Model without torch or state that waits at the gate before each training
/// batch. Loss and accuracy are checksums of everything that a trainer sees of
/// a batch, so that a job's digest and metrics tell whether it saw the same
/// batches as another job.
class ChecksumStep final : public train::TrainStep {
 public:
  explicit ChecksumStep(Gate& gate) : gate_(gate) {}
  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    gate_.Pass();
    return Evaluate(shards);
  }
  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    const int64_t checksum = Checksum(shards);
    return train::BatchResult{
        .loss = static_cast<float>(checksum),
        .num_seeds = train::NumSeeds(shards),
        .tally = {.num_predictions = kMaxChecksum, .num_correct = checksum}};
  }
  absl::StatusOr<store::TensorMap> Save() override { return step_->Save(); }
  absl::Status Load(const store::TensorMap& state) override {
    return step_->Load(state);
  }
  absl::StatusOr<store::SafeTensors> Export() override {
    return step_->Export();
  }

 private:
  // Greatest whole number up to which all are float32 values.
  static constexpr int64_t kMaxChecksum = int64_t{1} << 24;

  static int64_t Checksum(absl::Span<const train::BatchView> shards) {
    int64_t checksum = 0;
    for (const train::BatchView& shard : shards) {
      const std::string digest = hearth::testing::Fingerprint(shard);
      checksum = (checksum * 31 + std::stol(digest.substr(0, 6), nullptr, 16)) %
                 kMaxChecksum;
    }
    return checksum;
  }

  Gate& gate_;
  const std::unique_ptr<train::TrainStep> step_ = train::NewNullStep();
};

/// Daemon with a folder to import from, and stubs of its services. Jobs train
/// only while the gate is open.
class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    config_.data_dir = root_ + "/data";
    config_.listen = "127.0.0.1:0";
    config_.metrics_listen = "127.0.0.1:0";
    config_.first_wait_pause = absl::Milliseconds(1);
    config_.database_vfs = vfs_.name();
    EXPECT_TRUE(hearth::testing::WriteNumpyFolder({}, root_ + "/source").ok());
    Start();
  }
  ~DaemonTest() override { gate_.Open(); }

  absl::StatusOr<std::unique_ptr<Daemon>> NewDaemon(const Config& config) {
    return Daemon::Start(config,
                         {.new_train_step =
                              [this](const auto&, const auto&) {
                                return std::make_unique<ChecksumStep>(gate_);
                              },
                          .torch_version = ""},
                         files_);
  }

  void Start() {
    auto daemon = NewDaemon(config_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    Adopt(*std::move(daemon));
  }

  /// Directs calls to `daemon` from now on.
  void Adopt(std::unique_ptr<Daemon> daemon) {
    daemon_ = std::move(daemon);
    channel_ = grpc::CreateChannel(daemon_->grpc_address(),
                                   grpc::InsecureChannelCredentials());
    jobs_ = v1::Jobs::NewStub(channel_);
    datasets_ = v1::Datasets::NewStub(channel_);
    plans_ = v1::Plans::NewStub(channel_);
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
    spec.mutable_import()->set_path(root_ + "/source");
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

  /// Watches a job to its end. Notifies `begun` at the first event.
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

  /// Event by which a job ends or, before that, becomes WAITING.
  v1::StateChange AwaitEndOrWait(const std::string& id) {
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_id(id);
    const auto reader = jobs_->WatchJob(&context, request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
      const v1::JobState state = event.state().state();
      if (state == v1::WAITING || state == v1::SUCCEEDED ||
          state == v1::FAILED || state == v1::CANCELLED) {
        break;
      }
    }
    context.TryCancel();
    reader->Finish();
    return event.state();
  }

  /// Waits for the job's end, and returns the job.
  v1::Job AwaitEnd(const std::string& id) {
    std::vector<v1::JobEvent> events;
    const grpc::Status status = Watch(id, 0, &events);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Get(id);
  }

  grpc::Status TryGet(const std::string& id, v1::Job* job) {
    grpc::ClientContext context;
    v1::GetJobRequest request;
    request.set_id(id);
    return jobs_->GetJob(&context, request, job);
  }

  v1::Job Get(const std::string& id) {
    v1::Job job;
    const grpc::Status status = TryGet(id, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }

  void Import(const std::string& name) {
    const v1::Job job = AwaitEnd(Submit(ImportSpec(name)));
    ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
  }

  grpc::Status DeleteDataset(const std::string& name,
                             const std::string& request_id = "") {
    grpc::ClientContext context;
    v1::DeleteDatasetRequest request;
    request.set_name(name);
    request.set_request_id(request_id);
    google::protobuf::Empty empty;
    return datasets_->DeleteDataset(&context, request, &empty);
  }

  grpc::Status DeleteJob(const std::string& id,
                         const std::string& request_id = "") {
    grpc::ClientContext context;
    v1::DeleteJobRequest request;
    request.set_id(id);
    request.set_request_id(request_id);
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
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  FaultyVfs vfs_{"daemon_test"};
  std::unique_ptr<Daemon> daemon_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Jobs::Stub> jobs_;
  std::unique_ptr<v1::Datasets::Stub> datasets_;
  std::unique_ptr<v1::Plans::Stub> plans_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_TESTING_TEST_DAEMON_H_
