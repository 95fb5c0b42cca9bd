#include "server/services/transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/sha256.h"
#include "engine/io/testing/faults.h"
#include "gtest/gtest.h"
#include "hearth/v1/datasets.grpc.pb.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "server/testing/test_daemon.h"

namespace hearth::server {

namespace {

using Places = std::vector<std::unique_ptr<Transfers::Place>>;

void Fill(Transfers& transfers, const std::string& caller, int count,
          Places& places) {
  for (int i = 0; i < count; ++i) {
    auto place = transfers.Enter(caller);
    ASSERT_TRUE(place.ok()) << place.status();
    places.push_back(*std::move(place));
  }
}

TEST(TransfersTest, OneCallerLeavesRoomForOthers) {
  Transfers transfers(absl::Minutes(1));
  Places places;
  Fill(transfers, "ann", Transfers::kMostOfCaller, places);
  EXPECT_TRUE(absl::IsResourceExhausted(transfers.Enter("ann").status()));
  Fill(transfers, "bob", 1, places);
  places.erase(places.begin());
  Fill(transfers, "ann", 1, places);
}

TEST(TransfersTest, ThereIsABoundForAll) {
  Transfers transfers(absl::Minutes(1));
  Places places;
  for (int caller = 0; caller < Transfers::kMost / Transfers::kMostOfCaller;
       ++caller) {
    Fill(transfers, absl::StrCat("caller ", caller), Transfers::kMostOfCaller,
         places);
  }
  EXPECT_TRUE(absl::IsUnavailable(transfers.Enter("another").status()));
  places.clear();
  Fill(transfers, "another", 1, places);
}

}  // namespace

// Downloads and uploads over gRPC.

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string DigestOf(const std::string& text) {
  Sha256 digest;
  digest.Update(text);
  return digest.HexDigest();
}

class DownloadTest : public DaemonTest {
 protected:
  DownloadTest() {
    Import("planted");
    job_ = Submit(TrainSpec("planted"));
    EXPECT_EQ(AwaitEnd(job_).state(), v1::SUCCEEDED);
    model_ = ReadFile(ModelPath());
    request_.set_job_id(job_);
  }

  std::string ModelPath() const {
    return root_ + "/data/jobs/" + job_ + "/model/model.safetensors";
  }

  grpc::Status Download() {
    grpc::ClientContext context;
    const auto reader = jobs_->DownloadModel(&context, request_);
    v1::ModelChunk chunk;
    data_.clear();
    while (reader->Read(&chunk)) {
      if (chunk.has_model()) described_ = chunk.model();
      data_ += chunk.data();
    }
    return reader->Finish();
  }

  std::string job_;
  std::string model_;
  v1::DownloadModelRequest request_;
  v1::Model described_;
  std::string data_;
};

TEST_F(DownloadTest, GivesWhatAnExportWrites) {
  ASSERT_TRUE(Download().ok());
  ASSERT_EQ(AwaitEnd(Submit(ExportSpec(job_, "exported"))).state(),
            v1::SUCCEEDED);
  EXPECT_EQ(data_, ReadFile(root_ + "/exported/model.safetensors"));
  EXPECT_EQ(described_.config(), ReadFile(root_ + "/exported/config.json"));
  EXPECT_EQ(described_.size_bytes(), data_.size());
  EXPECT_EQ(described_.sha256(), DigestOf(data_));
}

TEST_F(DownloadTest, GoesOnAtAnyOffsetOfTheSameModel) {
  request_.set_sha256(DigestOf(model_));
  for (const uint64_t offset :
       {uint64_t{1}, model_.size() / 2, model_.size()}) {
    request_.set_offset(offset);
    ASSERT_TRUE(Download().ok());
    EXPECT_EQ(data_, model_.substr(offset));
  }
  request_.set_offset(model_.size() + 1);
  EXPECT_EQ(Download().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request_.set_sha256(DigestOf("another"));
  EXPECT_EQ(Download().error_code(), grpc::StatusCode::ABORTED);
  request_.clear_sha256();
  EXPECT_EQ(Download().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(DownloadTest, OnlyModelsOfJobsAreGivenOut) {
  request_.set_job_id("train-99");
  EXPECT_EQ(Download().error_code(), grpc::StatusCode::NOT_FOUND);
  request_.set_job_id("../" + job_);
  EXPECT_EQ(Download().error_code(), grpc::StatusCode::NOT_FOUND);
  request_.set_job_id("import-1");
  EXPECT_EQ(Download().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(DownloadTest, DamageIsNamed) {
  fs::resize_file(ModelPath(), model_.size() - 1);
  const grpc::Status status = Download();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(status.error_message(), HasSubstr(ModelPath()));
}

TEST_F(DownloadTest, AClientThatTakesNothingLosesItsPlace) {
  daemon_ = nullptr;
  config_.transfer_patience = absl::Milliseconds(50);
  Start();
  // With windows that do not grow with bandwidth, a model is more than gRPC
  // buffers for a client that does not read.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto jobs = v1::Jobs::NewStub(grpc::CreateCustomChannel(
      daemon_->grpc_address(), grpc::InsecureChannelCredentials(), arguments));
  const std::string header =
      R"({"__metadata__":{"config":"{}"},"w":{"dtype":"U8","shape":[4194304],)"
      R"("data_offsets":[0,4194304]}})";
  std::ofstream(ModelPath(), std::ios::binary)
      << static_cast<char>(header.size()) << std::string(7, '\0') << header
      << std::string(4 << 20, 'w');
  struct Reader {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::ModelChunk>> stream;
  };
  std::vector<std::unique_ptr<Reader>> readers;
  v1::ModelChunk chunk;
  for (int i = 0; i < Transfers::kMostOfCaller; ++i) {
    Reader& reader = *readers.emplace_back(std::make_unique<Reader>());
    reader.stream = jobs->DownloadModel(&reader.context, request_);
    // The download has its place once a chunk has arrived.
    reader.stream->Read(&chunk);
  }
  // Repeats until one of the downloads has lost its place.
  while (Download().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    std::this_thread::yield();
  }
  int cancelled = 0;
  for (const auto& reader : readers) {
    while (reader->stream->Read(&chunk)) continue;
    cancelled +=
        reader->stream->Finish().error_code() == grpc::StatusCode::CANCELLED;
  }
  EXPECT_GE(cancelled, 1);
}

// Whichever operation on the model's file fails, the client hears of it.
TEST_F(DownloadTest, EachFaultEndsTheDownloadWithItsError) {
  for (int64_t nth = 1;; ++nth) {
    files_.Inject({.nth = nth,
                   .status = absl::UnavailableError("the disk is away"),
                   .path_end = "model.safetensors"});
    const grpc::Status status = Download();
    const bool was_hit = files_.hits() > 0;
    files_.Clear();
    if (!was_hit) {
      EXPECT_TRUE(status.ok()) << status.error_message();
      break;
    }
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << nth;
    EXPECT_THAT(status.error_message(), HasSubstr("disk"));
  }
}

class UploadTest : public DaemonTest {
 protected:
  UploadTest() {
    request_.set_name("sent");
    for (const auto& entry : fs::directory_iterator(root_ + "/source")) {
      const std::string text = ReadFile(entry.path());
      v1::UploadFile& file = *request_.add_files();
      file.set_path(entry.path().filename());
      file.set_size_bytes(text.size());
      file.set_sha256(DigestOf(text));
      all_ += text;
    }
  }

  v1::Upload Begin() {
    grpc::ClientContext context;
    v1::Upload upload;
    const grpc::Status status =
        datasets_->BeginUpload(&context, request_, &upload);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return upload;
  }

  grpc::Status Send(const std::string& id, uint64_t offset, uint64_t size,
                    v1::Upload* upload) {
    grpc::ClientContext context;
    const auto writer = datasets_->SendUpload(&context, upload);
    v1::UploadChunk chunk;
    chunk.set_id(id);
    const std::string data = all_.substr(offset, size);
    for (uint64_t at = 0; at < data.size(); at += 100'000) {
      chunk.set_offset(offset + at);
      chunk.set_data(data.substr(at, 100'000));
      if (!writer->Write(chunk)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  std::vector<v1::Upload> Uploads() {
    grpc::ClientContext context;
    v1::ListUploadsResponse response;
    const grpc::Status status =
        datasets_->ListUploads(&context, v1::ListUploadsRequest(), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return {response.uploads().begin(), response.uploads().end()};
  }

  grpc::Status DeleteUpload(const std::string& id,
                            const std::string& request_id) {
    grpc::ClientContext context;
    v1::DeleteUploadRequest request;
    request.set_id(id);
    request.set_request_id(request_id);
    google::protobuf::Empty empty;
    return datasets_->DeleteUpload(&context, request, &empty);
  }

  v1::JobSpec SpecOf(const std::string& upload) {
    v1::JobSpec spec;
    spec.mutable_import()->set_name("sent");
    spec.mutable_import()->set_upload(upload);
    return spec;
  }

  std::string FingerprintOf(const std::string& name) {
    grpc::ClientContext context;
    v1::GetDatasetRequest request;
    request.set_name(name);
    v1::Dataset dataset;
    EXPECT_TRUE(datasets_->GetDataset(&context, request, &dataset).ok());
    return dataset.fingerprint();
  }

  v1::BeginUploadRequest request_;
  std::string all_;
};

TEST_F(UploadTest, IsImportedOverARestart) {
  const std::string id = Begin().id();
  v1::Upload upload;
  const grpc::Status half = Send(id, 0, all_.size() / 2, &upload);
  ASSERT_TRUE(half.ok()) << half.error_message();
  EXPECT_EQ(upload.received_bytes(), all_.size() / 2);
  v1::Job job;
  const grpc::Status early = TrySubmit(SpecOf(id), &job);
  EXPECT_EQ(early.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  daemon_ = nullptr;
  Start();
  EXPECT_EQ(Begin().received_bytes(), all_.size() / 2);
  ASSERT_TRUE(Send(id, all_.size() / 2, all_.size(), &upload).ok());
  const v1::Job ended = AwaitEnd(Submit(SpecOf(id)));
  EXPECT_EQ(ended.state(), v1::SUCCEEDED) << ended.error().message();
  const std::string sent = FingerprintOf("sent");
  // The same name, since checksums are seeded with it.
  ASSERT_TRUE(DeleteDataset("sent").ok());
  Import("sent");
  EXPECT_EQ(sent, FingerprintOf("sent"));
  EXPECT_EQ(Send(id, 0, 1, &upload).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(UploadTest, IsDeletedWhileItComes) {
  const std::string id = Begin().id();
  v1::Upload upload;
  grpc::ClientContext context;
  const auto writer = datasets_->SendUpload(&context, &upload);
  v1::UploadChunk chunk;
  chunk.set_id(id);
  chunk.set_data(all_.substr(0, 1000));
  ASSERT_TRUE(writer->Write(chunk));
  while (Uploads()[0].received_bytes() < 1000) std::this_thread::yield();
  const std::string request_id = "one deletion";
  EXPECT_TRUE(DeleteUpload(id, request_id).ok());
  EXPECT_TRUE(Uploads().empty());
  EXPECT_FALSE(fs::exists(root_ + "/data/uploads/" + id));
  chunk.set_offset(1000);
  chunk.set_data(all_.substr(1000));
  writer->Write(chunk);
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("deleted"));
  EXPECT_TRUE(fs::is_empty(root_ + "/data/uploads"));
  EXPECT_TRUE(DeleteUpload(id, request_id).ok());
  EXPECT_EQ(DeleteUpload(id, "another").error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(DeleteUpload(id, "").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(UploadTest, IsNotDeletedWhileItIsImported) {
  const std::string id = Begin().id();
  v1::Upload upload;
  ASSERT_TRUE(Send(id, 0, all_.size(), &upload).ok());
  files_.Inject({.effect = io::Effect::kBlock,
                 .only = io::Operation::kOpenForRead,
                 .path_end = request_.files(0).path()});
  const std::string job = Submit(SpecOf(id));
  const grpc::Status refused = DeleteUpload(id, "");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr(job));
  EXPECT_EQ(Uploads()[0].job_id(), job);
  files_.Clear();
  EXPECT_EQ(AwaitEnd(job).state(), v1::SUCCEEDED);
}

TEST_F(UploadTest, HasNoPathAndIsNotUsedInPlace) {
  const std::string id = Begin().id();
  v1::Upload upload;
  ASSERT_TRUE(Send(id, 0, all_.size(), &upload).ok());
  v1::JobSpec spec = SpecOf(id);
  spec.mutable_import()->set_path(root_ + "/source");
  v1::Job job;
  EXPECT_THAT(TrySubmit(spec, &job).error_message(), HasSubstr("import.path"));
  spec.mutable_import()->clear_path();
  spec.mutable_import()->set_in_place(true);
  EXPECT_THAT(TrySubmit(spec, &job).error_message(), HasSubstr("in_place"));
}

TEST_F(UploadTest, TheNameMustBeFree) {
  Import("sent");
  grpc::ClientContext context;
  v1::Upload upload;
  EXPECT_EQ(datasets_->BeginUpload(&context, request_, &upload).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(UploadTest, AStreamThatIsIdleEndsWithTheDaemon) {
  const std::string id = Begin().id();
  grpc::ClientContext context;
  v1::Upload upload;
  const auto writer = datasets_->SendUpload(&context, &upload);
  v1::UploadChunk chunk;
  chunk.set_id(id);
  ASSERT_TRUE(writer->Write(chunk));
  writer->WaitForInitialMetadata();
  daemon_ = nullptr;
  EXPECT_FALSE(writer->Finish().ok());
}

TEST_F(UploadTest, ASlowSyncKeepsNobodyElseWaiting) {
  const std::string slow = Begin().id();
  request_.set_name("other");
  const std::string other = Begin().id();
  files_.Inject({.effect = io::Effect::kBlock, .only = io::Operation::kSync});
  v1::Upload upload;
  grpc::Status sent;
  std::thread sender([&] { sent = Send(slow, 0, all_.size(), &upload); });
  while (files_.hits() == 0) std::this_thread::yield();
  // The part does not end at the end of a file.
  v1::Upload part;
  EXPECT_TRUE(Send(other, 0, 1, &part).ok());
  EXPECT_EQ(part.received_bytes(), 1);
  files_.Clear();
  sender.join();
  EXPECT_TRUE(sent.ok()) << sent.error_message();
  EXPECT_EQ(upload.received_bytes(), all_.size());
}

TEST_F(UploadTest, AnIdleStreamEndsAndTheUploadGoesOn) {
  daemon_ = nullptr;
  config_.transfer_patience = absl::Milliseconds(50);
  Start();
  const std::string id = Begin().id();
  {
    // One client has not named its upload, the other not sent all of it.
    grpc::ClientContext silent_context;
    grpc::ClientContext context;
    v1::Upload upload;
    const auto silent = datasets_->SendUpload(&silent_context, &upload);
    const auto writer = datasets_->SendUpload(&context, &upload);
    v1::UploadChunk chunk;
    chunk.set_id(id);
    chunk.set_data(all_.substr(0, 10));
    writer->Write(chunk);
    EXPECT_EQ(writer->Finish().error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_EQ(silent->Finish().error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  daemon_ = nullptr;
  config_.transfer_patience = absl::Hours(1);
  Start();
  const uint64_t received = Begin().received_bytes();
  v1::Upload upload;
  ASSERT_TRUE(Send(id, received, all_.size(), &upload).ok());
  EXPECT_EQ(upload.received_bytes(), all_.size());
}

TEST_F(UploadTest, AFullDiskLosesNothing) {
  const std::string id = Begin().id();
  files_.LimitSpace(10'000);
  v1::Upload upload;
  EXPECT_EQ(Send(id, 0, all_.size(), &upload).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  files_.LimitSpace(uint64_t{1} << 40);
  const uint64_t received = Begin().received_bytes();
  EXPECT_LT(received, all_.size());
  const grpc::Status rest = Send(id, received, all_.size(), &upload);
  EXPECT_TRUE(rest.ok()) << rest.error_message();
  EXPECT_EQ(upload.received_bytes(), all_.size());
}

}  // namespace

}  // namespace hearth::server
