// Jobs that failed or were cancelled and are resumed, over the real socket of a
// daemon.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hearth/v1/jobs.grpc.pb.h"
#include "server/daemon_fixture.h"
#include "tests/fixtures/planted_graph.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

class ResumeTest : public DaemonTest {
 protected:
  grpc::Status Resume(const v1::ResumeJobRequest& request, v1::Job* job) {
    grpc::ClientContext context;
    return jobs_->ResumeJob(&context, request, job);
  }

  static v1::ResumeJobRequest Request(const std::string& id,
                                      const std::string& request_id = "") {
    v1::ResumeJobRequest request;
    request.set_id(id);
    request.set_request_id(request_id);
    return request;
  }

  static v1::JobSpec Spec() {
    v1::JobSpec spec = TrainSpec("graph");
    spec.mutable_train()->set_checkpoint_every(1);
    spec.mutable_train()->mutable_data()->set_epochs(4);
    return spec;
  }

  // A job that was cancelled in its first epoch.
  std::string CancelledJob() {
    gate_.Close();
    const std::string id = Submit(Spec());
    gate_.AwaitWaiting();
    EXPECT_TRUE(Cancel(id).ok());
    gate_.Open();
    EXPECT_EQ(AwaitEnd(id).state(), v1::CANCELLED);
    return id;
  }
};

TEST_F(ResumeTest, ACancelledJobGoesOnWithOtherBudgets) {
  Import("graph");
  const v1::Job undisturbed = AwaitEnd(Submit(Spec()));
  const std::string id = CancelledJob();
  v1::ResumeJobRequest request = Request(id, "r");
  *request.mutable_spec() = Get(id).spec();
  request.mutable_spec()->mutable_train()->set_checkpoint_every(2);
  request.mutable_spec()->mutable_train()->mutable_pipeline()->set_samplers(2);
  v1::Job resumed;
  const grpc::Status status = Resume(request, &resumed);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(resumed.id(), id);
  EXPECT_EQ(resumed.spec().train().checkpoint_every(), 2u);

  std::vector<v1::JobEvent> events;
  ASSERT_TRUE(Watch(id, 0, &events).ok());
  uint32_t epochs = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].sequence(), i + 1);
    if (events[i].has_epoch()) {
      EXPECT_EQ(events[i].epoch().epoch(), ++epochs);
    }
  }
  EXPECT_EQ(epochs, 4u);
  const v1::Job job = Get(id);
  EXPECT_EQ(job.state(), v1::SUCCEEDED);
  EXPECT_EQ(job.report().train().resumes(), 1u);
  EXPECT_EQ(job.report().train().loss_digest(),
            undisturbed.report().train().loss_digest());
  EXPECT_EQ(job.report().train().epochs_size(), 4);
  // A repeated request does nothing.
  ASSERT_TRUE(Resume(request, &resumed).ok());
  EXPECT_EQ(resumed.state(), v1::SUCCEEDED);
  EXPECT_EQ(Resume(Request(id), &resumed).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ResumeTest, WhatChangesResultsIsRefused) {
  Import("graph");
  const std::string id = CancelledJob();
  v1::ResumeJobRequest request = Request(id);
  *request.mutable_spec() = Get(id).spec();
  request.mutable_spec()->mutable_train()->mutable_data()->set_epochs(9);
  v1::Job job;
  grpc::Status status = Resume(request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("train.data.epochs"));
  *request.mutable_spec() = Get(id).spec();
  request.mutable_spec()->mutable_train()->mutable_pipeline()->set_samplers(99);
  status = Resume(request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("train.pipeline.samplers"));
  EXPECT_EQ(Get(id).state(), v1::CANCELLED);
  EXPECT_EQ(Resume(Request("train-99"), &job).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ResumeTest, ADatasetThatHasChangedIsRefused) {
  Import("graph");
  const std::string id = CancelledJob();
  ASSERT_TRUE(DeleteDataset("graph").ok());
  v1::Job job;
  EXPECT_EQ(Resume(Request(id), &job).error_code(),
            grpc::StatusCode::NOT_FOUND);
  ASSERT_TRUE(
      hearth::testing::WriteNumpyFolder({.seed = 8}, root_ + "/source").ok());
  Import("graph");
  const grpc::Status status = Resume(Request(id), &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("has changed"));
}

TEST_F(ResumeTest, AJobOfAnotherKindIsRunAgain) {
  v1::JobSpec spec = ImportSpec("graph");
  const std::string source = root_ + "/source";
  std::filesystem::rename(source, source + "2");
  // The folder is there when the job is submitted, and empty.
  std::filesystem::create_directory(source);
  const std::string id = Submit(spec);
  EXPECT_EQ(AwaitEnd(id).state(), v1::FAILED);
  std::filesystem::remove(source);
  std::filesystem::rename(source + "2", source);
  v1::Job job;
  ASSERT_TRUE(Resume(Request(id), &job).ok());
  EXPECT_EQ(AwaitEnd(id).state(), v1::SUCCEEDED);
  EXPECT_FALSE(Get(id).has_error());
}

TEST_F(ResumeTest, ADrainingDaemonResumesNothing) {
  Import("graph");
  const std::string id = CancelledJob();
  SetDraining(true);
  v1::Job job;
  EXPECT_EQ(Resume(Request(id), &job).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace hearth::server
