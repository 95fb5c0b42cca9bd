// Requests that must be refused, over the real socket of a daemon, each with
// the field at fault.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "server/testing/test_daemon.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Job on an existing dataset, so that nothing else is at fault.
constexpr char kTrain[] =
    "spec { train { data { dataset: 'graph' memory {} batch_size: 64 "
    "epochs: 1 DATA } trains { sage { MODEL } TRAIN } JOB } }";

struct BadRequest {
  // A SubmitJobRequest as text; ROOT stands for the test's folder.
  std::string text;
  // Part of the expected message.
  std::string said;
  grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT;
};

std::string Train(const std::string& part, const std::string& value) {
  std::string text = kTrain;
  for (const char* one : {"DATA", "MODEL", "TRAIN", "JOB"}) {
    text = absl::StrReplaceAll(text, {{one, part == one ? value : ""}});
  }
  return text;
}

std::vector<BadRequest> BadRequests() {
  const std::string import = "spec { import { name: 'new' path: 'ROOT/source' ";
  const std::string generate =
      "spec { generate { name: 'new' num_nodes: 100 num_edges: 500 ";
  return {
      {"", "spec.kind"},
      {"spec {}", "spec.kind"},
      {"request_id: 'a\\nb' " + import + "} }", "request_id: must have no"},
      {"request_id: 'a\\000b' " + import + "} }", "request_id: must have no"},
      {"request_id: 'a\\177' " + import + "} }", "request_id: must have no"},
      {"request_id: '" + std::string(129, 'x') + "' " + import + "} }",
       "request_id: must be at most 128"},
      {"spec { import { name: 'a\\nb' path: '/x' } }", "import.name"},
      {"spec { import { name: '../x' path: '/x' } }", "import.name"},
      {"spec { import { name: '' path: '/x' } }", "import.name"},
      {"spec { import { name: 'x.tmp' path: '/x' } }", "import.name"},
      {"spec { import { name: 'new' path: 'relative' } }", "import.path"},
      {"spec { import { name: 'new' path: '/a\\nb' } }", "import.path"},
      {import + "format: 99 } }", "import.format: is 99"},
      {import + "labels: 99 } }", "import.labels: is 99"},
      {import + "edges { self_loops: -1 } } }", "import.edges.self_loops: is"},
      {import + "non_finite: 17 } }", "import.non_finite: is 17"},
      {import + "fill_features: 2 } }", "import.fill_features: is 2"},
      {import + "memory_limit_bytes: 1 } }", "import.memory_limit_bytes"},
      {import + "igb { num_classes: 20 } } }", "import.igb.num_classes"},
      {Train("DATA", "neighbor { fanouts: 0 }"), "fanouts[0]"},
      {Train("DATA", "neighbor { fanouts: -2 }"), "fanouts[0]"},
      {Train("DATA", "distinct_epochs: 4294967295"), "distinct_epochs"},
      {Train("DATA", "trainers: 65"), "train.data.trainers"},
      {Train("DATA", "budgets { cpu_cache_bytes: 5 }"), "cpu_cache_bytes"},
      {Train("MODEL", "hidden: 4294967295"), "hidden"},
      {Train("TRAIN", "dropout: nan"), "dropout"},
      {Train("TRAIN", "dropout: -1"), "dropout"},
      {Train("TRAIN", "adam { learning_rate: inf }"), "learning_rate"},
      {Train("TRAIN", "adam { learning_rate: -0.1 }"), "learning_rate"},
      {Train("TRAIN", "train_threads: 100000"), "train_threads"},
      {Train("JOB", "trains { gcn {} }"), "one model per job",
       grpc::StatusCode::UNIMPLEMENTED},
      {"spec { train { data { dataset: 'graph' memory {} } } }",
       "train.trains"},
      {"spec { prepare { data { dataset: 'graph' neighbor { fanouts: 0 } "
       "diskgnn {} } } }",
       "prepare.data.neighbor.fanouts"},
      {"spec { prepare { data { dataset: 'graph' memory {} } } }",
       "prepare.data.strategy"},
      {"spec { explain { train { data { dataset: 'a\\tb' memory {} } "
       "trains { sage {} } } } }",
       "explain.train.data.dataset"},
      {"spec { verify { dataset: 'a\\nb' } }", "verify.dataset"},
      {"spec { generate { name: 'new' num_nodes: 9223372036854775808 "
       "num_edges: 500 rmat {} } }",
       "not 9223372036854775808"},
      {"spec { generate { name: 'new' num_nodes: 100 "
       "num_edges: 18446744073709551615 rmat {} } }",
       "not 18446744073709551615"},
      {generate + "feature_dtype: 'int8' } }", "generate.feature_dtype"},
      {generate + "train_share: nan } }", "generate"},
      {generate + "destination: '/x' } }", "generate.name"},
      {generate + "format: 77 } }", "generate.format: is 77"},
      {"spec { generate { destination: 'ROOT/data/datasets/x' num_nodes: 100 "
       "num_edges: 500 format: NUMPY } }",
       "own data directory"},
      {"spec { export { job_id: 'MODEL_JOB' destination: 'ROOT/data/jobs/x' } "
       "}",
       "own data directory"},
      {"spec { export { job_id: 'MODEL_JOB' destination: 'ROOT/link/x' } }",
       "own data directory"},
      {"spec { export { job_id: 'MODEL_JOB' "
       "destination: 'ROOT/source/../data/x' } }",
       "own data directory"},
      {"spec { export { job_id: '' destination: '/x' } }", "export.job_id"},
      {"spec { export { job_id: 'train-2\\n' destination: '/x' } }",
       "export.job_id"},
      {"spec { export_dataset { dataset: 'graph' "
       "destination: 'ROOT/data/datasets/graph/x' } }",
       "own data directory"},
      {"spec { export_dataset { dataset: 'graph' destination: '/x' format: 98 "
       "} }",
       "export_dataset.format: is 98"},
  };
}

class BadRequestsTest : public DaemonTest {
 protected:
  BadRequestsTest() {
    Import("graph");
    trained_ = Submit(TrainSpec("graph"));
    AwaitEnd(trained_);
    fs::create_directory_symlink(config_.data_dir + "/jobs", root_ + "/link");
  }

  v1::SubmitJobRequest Parse(const std::string& text) const {
    v1::SubmitJobRequest request;
    google::protobuf::TextFormat::Parser parser;
    EXPECT_TRUE(parser.ParseFromString(
        absl::StrReplaceAll(text, {{"ROOT", root_}, {"MODEL_JOB", trained_}}),
        &request))
        << text;
    return request;
  }

  grpc::Status Send(const v1::SubmitJobRequest& request) {
    grpc::ClientContext context;
    v1::Job job;
    return jobs_->SubmitJob(&context, request, &job);
  }

  size_t CountJobs() {
    grpc::ClientContext context;
    v1::ListJobsResponse response;
    EXPECT_TRUE(jobs_->ListJobs(&context, {}, &response).ok());
    return static_cast<size_t>(response.jobs_size());
  }

  std::string trained_;
};

TEST_F(BadRequestsTest, AreRefusedByField) {
  const size_t before = CountJobs();
  const std::vector<BadRequest> requests = BadRequests();
  EXPECT_GE(requests.size(), 30u);
  for (const BadRequest& bad : requests) {
    const grpc::Status status = Send(Parse(bad.text));
    EXPECT_EQ(status.error_code(), bad.code) << bad.text;
    EXPECT_THAT(status.error_message(), HasSubstr(bad.said)) << bad.text;
    EXPECT_THAT(status.error_message(), Not(HasSubstr("-9223372036854775808")));
  }
  EXPECT_EQ(CountJobs(), before);
}

TEST_F(BadRequestsTest, TheRequestThatTheyAreMadeOfIsGood) {
  for (const std::string& text :
       {Train("", ""), Train("DATA", "neighbor { fanouts: 3 }")}) {
    const grpc::Status status = Send(Parse(text));
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

TEST_F(BadRequestsTest, UnknownFieldsAreRefusedWhereTheyAre) {
  v1::SubmitJobRequest request = Parse(Train("", ""));
  const auto add_to = [](google::protobuf::Message* message) {
    message->GetReflection()->MutableUnknownFields(message)->AddVarint(900, 1);
  };
  v1::SubmitJobRequest at_top = request;
  add_to(&at_top);
  EXPECT_THAT(Send(at_top).error_message(),
              HasSubstr("request: has field number 900"));
  v1::SubmitJobRequest in_data = request;
  add_to(in_data.mutable_spec()->mutable_train()->mutable_data());
  EXPECT_THAT(Send(in_data).error_message(),
              HasSubstr("train.data: has field number 900"));
  v1::SubmitJobRequest in_model = request;
  add_to(in_model.mutable_spec()->mutable_train()->mutable_trains(0));
  const grpc::Status status = Send(in_model);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("train.trains[0]: has field number 900"));
}

TEST_F(BadRequestsTest, ListsOfUnknownStatesAreRefused) {
  for (const int state : {0, 99, -1}) {
    grpc::ClientContext context;
    v1::ListJobsRequest request;
    request.add_states(v1::QUEUED);
    request.add_states(static_cast<v1::JobState>(state));
    v1::ListJobsResponse response;
    const grpc::Status status = jobs_->ListJobs(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("states[1]")) << state;
  }
}

// Makes a call with `value` in `field`.
template <typename Stub, typename Request, typename Response>
grpc::Status CallWith(Stub& stub,
                      grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                   const Request&, Response*),
                      const char* field, const std::string& value) {
  grpc::ClientContext context;
  Request request;
  request.GetReflection()->SetString(
      &request, request.GetDescriptor()->FindFieldByName(field), value);
  Response response;
  return (stub.*method)(&context, request, &response);
}

TEST_F(BadRequestsTest, NamesWithControlCharactersAreRefusedByEveryCall) {
  const std::string bad = "train-2\n";
  const std::vector<grpc::Status> statuses = {
      CallWith(*jobs_, &v1::Jobs::Stub::GetJob, "id", bad),
      CallWith(*jobs_, &v1::Jobs::Stub::CancelJob, "id", bad),
      CallWith(*jobs_, &v1::Jobs::Stub::DeleteJob, "id", bad),
      CallWith(*jobs_, &v1::Jobs::Stub::TailJob, "id", bad),
      CallWith(*jobs_, &v1::Jobs::Stub::ListJobs, "page_token", bad),
      CallWith(*datasets_, &v1::Datasets::Stub::GetDataset, "name", bad),
      CallWith(*datasets_, &v1::Datasets::Stub::DeleteDataset, "name", bad),
      CallWith(*datasets_, &v1::Datasets::Stub::DeleteUpload, "id", bad),
      CallWith(*plans_, &v1::Plans::Stub::GetPlan, "name", bad),
      CallWith(*plans_, &v1::Plans::Stub::DeletePlan, "name", bad),
      CallWith(*admin_, &v1::Admin::Stub::Backup, "destination", "/a\nb"),
  };
  for (const grpc::Status& status : statuses) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("control characters"));
  }
  std::vector<v1::JobEvent> events;
  EXPECT_EQ(Watch(bad, 0, &events).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(BadRequestsTest, BackupsIntoTheDataDirectoryAreRefused) {
  for (const std::string& to :
       {config_.data_dir + "/backup", root_ + "/link/backup",
        root_ + "/source/../data/backup", std::string("backup"),
        std::string()}) {
    const grpc::Status status =
        CallWith(*admin_, &v1::Admin::Stub::Backup, "destination", to);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << to;
  }
}

TEST_F(BadRequestsTest, TailsBeyondTheLimitAreRefused) {
  grpc::ClientContext context;
  v1::TailJobRequest request;
  request.set_id(trained_);
  request.set_count(1001);
  v1::TailJobResponse response;
  EXPECT_THAT(jobs_->TailJob(&context, request, &response).error_message(),
              HasSubstr("count"));
}

TEST_F(BadRequestsTest, ErrorsDoNotTellWhatAFileHolds) {
  const std::string secret = "correct-horse";
  // Texts alone, in two fields, or with the prefix that their name promises.
  for (const char* text : {"correct-horse\n", "user correct-horse\n",
                           "correct-horse,correct-horse\n", "1 correct-horse\n",
                           "correct-horse:x:0:0:root:/root:/bin/sh\n"}) {
    for (const char* name : {"file", "file.txt", "folder/node_feat.npy"}) {
      for (const char* format : {"", "format: NUMPY", "format: EDGE_LIST",
                                 "format: OGB", "format: GRAPHBOLT"}) {
        const fs::path path = root_ + "/secret/" + name;
        fs::create_directories(path.parent_path());
        std::ofstream(path) << text;
        const bool in_folder = absl::StrCat(name)[1] == 'o';
        const v1::SubmitJobRequest request =
            Parse(absl::StrCat("spec { import { name: 'secret' path: '",
                               (in_folder ? path.parent_path() : path).string(),
                               "' ", format, " } }"));
        grpc::ClientContext context;
        v1::Job submitted;
        const grpc::Status status =
            jobs_->SubmitJob(&context, request, &submitted);
        if (!status.ok()) {
          EXPECT_THAT(status.error_message(), Not(HasSubstr(secret)));
          continue;
        }
        const v1::Job job = AwaitEnd(submitted.id());
        EXPECT_EQ(job.state(), v1::FAILED) << text << name << format;
        EXPECT_THAT(job.error().message(), Not(HasSubstr("horse")));
      }
    }
  }
}

}  // namespace
}  // namespace hearth::server
