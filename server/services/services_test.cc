#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "hearth/v1/jobs.grpc.pb.h"
#include "hearth/v1/plans.grpc.pb.h"
#include "server/testing/test_daemon.h"
#include "tests/fixtures/graphs.h"

// Answers of the services, over the real socket of a daemon.

namespace hearth::server {

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ServicesTest = DaemonTest;

TEST_F(ServicesTest, DatasetsAreListedShownAndDeleted) {
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

TEST_F(ServicesTest, PlansAreListedShownAndDeletedUnlessInUse) {
  Import("graph");
  v1::JobSpec spec = TrainSpec("graph");
  spec.mutable_train()->mutable_data()->mutable_diskgnn();
  gate_.Close();
  const std::string id = Submit(spec);
  gate_.AwaitWaiting();
  const auto list = [this] {
    grpc::ClientContext context;
    v1::ListPlansResponse response;
    EXPECT_TRUE(plans_->ListPlans(&context, {}, &response).ok());
    return response;
  };
  const auto remove = [this](const std::string& name) {
    grpc::ClientContext context;
    v1::DeletePlanRequest request;
    request.set_name(name);
    google::protobuf::Empty response;
    return plans_->DeletePlan(&context, request, &response).error_code();
  };
  ASSERT_EQ(list().plans_size(), 1);
  const v1::Plan plan = list().plans(0);
  EXPECT_EQ(plan.strategy(), "diskgnn");
  EXPECT_THAT(plan.datasets(), ElementsAre("graph"));
  EXPECT_EQ(plan.state(), v1::Plan::WHOLE);
  EXPECT_TRUE(plan.in_use());
  EXPECT_EQ(remove(plan.name()), grpc::StatusCode::FAILED_PRECONDITION);
  gate_.Open();
  std::vector<v1::JobEvent> events;
  ASSERT_TRUE(Watch(id, 0, &events).ok());
  {
    grpc::ClientContext context;
    v1::GetPlanRequest request;
    request.set_name(plan.name());
    v1::Plan shown;
    ASSERT_TRUE(plans_->GetPlan(&context, request, &shown).ok());
    EXPECT_FALSE(shown.in_use());
    EXPECT_EQ(shown.size_bytes(), plan.size_bytes());
  }
  EXPECT_EQ(remove(plan.name()), grpc::StatusCode::OK);
  EXPECT_EQ(remove(plan.name()), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(list().plans_size(), 0);
}

TEST_F(ServicesTest, AnUnknownDatasetIsAnsweredWithThoseThereAre) {
  v1::Job job;
  grpc::Status status = TrySubmit(TrainSpec("nope"), &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("none has been imported"));
  Import("graph");
  status = TrySubmit(TrainSpec("nope"), &job);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("\"nope\""), HasSubstr("there are: graph")));
}

TEST_F(ServicesTest, AFieldAtFaultIsNamedInTheDetails) {
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

TEST_F(ServicesTest, AWatchIsResumedWithoutGapOrDuplicate) {
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

TEST_F(ServicesTest, ManyWatchersSeeAllOfARunningJob) {
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

TEST_F(ServicesTest, AWatchEndsWithItsClientAndTheJobGoesOn) {
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

TEST_F(ServicesTest, AWatchEndsOnceItsCallerIsNobody) {
  Import("graph");
  gate_.Close();
  const std::string id = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_id(id);
  const auto reader = jobs_->WatchJob(&context, request);
  v1::JobEvent event;
  ASSERT_TRUE(reader->Read(&event));
  // Callers over loopback need a token from now on.
  grpc::ClientContext create_context;
  v1::CreateTokenRequest create;
  create.set_name("ann");
  create.set_role(v1::USER);
  v1::NewToken made;
  ASSERT_TRUE(admin_->CreateToken(&create_context, create, &made).ok());
  gate_.Open();
  while (reader->Read(&event)) EXPECT_NE(event.state().state(), v1::SUCCEEDED);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ServicesTest, RepeatedRequestsGiveOneJob) {
  v1::Job first, again, other;
  ASSERT_TRUE(TrySubmit(ImportSpec("graph"), &first, "r").ok());
  AwaitEnd(first.id());
  ASSERT_TRUE(TrySubmit(ImportSpec("graph"), &again, "r").ok());
  EXPECT_EQ(again.id(), first.id());
  EXPECT_EQ(TrySubmit(ImportSpec("graph2"), &other, "r").error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(ServicesTest, ADatasetNameIsTakenFromTheStartOfItsImport) {
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

TEST_F(ServicesTest, WhatAJobUsesCannotBeDeleted) {
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

TEST_F(ServicesTest, OnlyModelsAreExported) {
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

TEST_F(ServicesTest, ARunningJobIsCancelledAtTheNextBatch) {
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

TEST_F(ServicesTest, ABadImportFailsNamingTheFile) {
  fs::resize_file(root_ + "/source/node_feat.npy", 1000);
  const v1::Job job = AwaitEnd(Submit(ImportSpec("graph")));
  EXPECT_EQ(job.state(), v1::FAILED);
  EXPECT_THAT(job.error().message(), HasSubstr("node_feat.npy"));
  EXPECT_FALSE(fs::exists(config_.data_dir + "/datasets/graph"));
}

TEST_F(ServicesTest, JobsAreListedInPages) {
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

}  // namespace

// Resuming failed and cancelled jobs, over the real socket of a daemon.

namespace {

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

  // Job that was cancelled in its first epoch.
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
  // The folder exists when the job is submitted, and is empty.
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
