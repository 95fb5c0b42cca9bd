#include "server/storage/upload_staging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/clock.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "hearth/v1/datasets.pb.h"
#include "server/storage/disk_space.h"
#include "server/storage/job_store.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Clock that only the test moves.
class HandClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
  double SteadySeconds() const override { return seconds; }
  std::atomic<double> seconds = 1e6;
};

v1::BeginUploadRequest RequestFor(const std::string& name,
                                  const std::string& text) {
  v1::BeginUploadRequest request;
  request.set_name(name);
  v1::UploadFile& file = *request.add_files();
  file.set_path("file");
  file.set_size_bytes(text.size());
  Sha256 digest;
  digest.Update(text);
  file.set_sha256(digest.HexDigest());
  return request;
}

class UploadStagingTest : public testing::Test {
 protected:
  UploadStagingTest() {
    fs::create_directories(folder_.Path("uploads"));
    jobs_ = *JobStore::Open(files_, folder_.Path("hearth.db"), clock_,
                            [](const std::string&) {});
    trash_ = std::make_unique<Trash>(files_, folder_.Path("trash"), [] {});
    options_.folder = folder_.Path("uploads");
    options_.limit_bytes = 1000;
    Open();
  }

  void Open() {
    staging_ = nullptr;
    auto staging = UploadStaging::Open(
        {.files = files_, .clock = clock_, .jobs = *jobs_, .trash = *trash_},
        options_);
    ASSERT_TRUE(staging.ok()) << staging.status();
    staging_ = *std::move(staging);
  }

  absl::StatusOr<v1::Upload> Begin(const std::string& name, size_t bytes,
                                   const std::string& owner = "token:ann",
                                   bool is_operator = false) {
    return staging_->Begin(RequestFor(name, std::string(bytes, 'x')), owner,
                           is_operator);
  }

  // Id of a complete upload.
  std::string Whole(const std::string& name) {
    const absl::StatusOr<v1::Upload> begun = Begin(name, 100);
    EXPECT_TRUE(begun.ok()) << begun.status();
    Send(begun->id(), 0, 100);
    return begun->id();
  }

  // Sends the next bytes of an upload.
  void Send(const std::string& id, uint64_t offset, size_t bytes) {
    const auto upload = *staging_->Find(id);
    EXPECT_TRUE(*upload->CatchUp());
    const std::string text(bytes, 'x');
    EXPECT_TRUE(
        upload
            ->Append(offset, {reinterpret_cast<const std::byte*>(text.data()),
                              text.size()})
            .ok());
    EXPECT_TRUE(upload->FinishFile().ok());
  }

  // Submits a job that imports the upload.
  std::string NewJob(const std::string& upload) {
    v1::JobSpec spec;
    spec.mutable_import()->set_name("cora");
    spec.mutable_import()->set_upload(upload);
    return jobs_->Submit("", spec)->id();
  }

  void End(const std::string& job) {
    StateUpdate update;
    update.state = v1::CANCELLED;
    ASSERT_TRUE(jobs_->ChangeState(job, update).ok());
  }

  bool IsThere(const std::string& id) {
    return fs::exists(folder_.Path("uploads/" + id)) && staging_->Get(id).ok();
  }

  const io::ScratchDirectory folder_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  HandClock clock_;
  std::unique_ptr<JobStore> jobs_;
  std::unique_ptr<Trash> trash_;
  UploadOptions options_;
  std::unique_ptr<UploadStaging> staging_;
};

TEST_F(UploadStagingTest, ARepeatedRequestGivesTheSameUpload) {
  const v1::Upload first = *Begin("cora", 100);
  EXPECT_EQ(first.size_bytes(), 100);
  EXPECT_EQ(Begin("cora", 100)->id(), first.id());
  Open();
  EXPECT_EQ(Begin("cora", 100)->id(), first.id());
  EXPECT_EQ(*staging_->GetOwner(first.id()), "token:ann");
  EXPECT_NE(Begin("cora", 100, "token:bob")->id(), first.id());
}

TEST_F(UploadStagingTest, OtherFilesTakeThePlaceOfTheSameDataset) {
  const std::string first = Begin("cora", 400)->id();
  const absl::StatusOr<v1::Upload> second = Begin("cora", 450);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(IsThere(first));
  EXPECT_TRUE(IsThere(second->id()));
}

TEST_F(UploadStagingTest, TheLimitHoldsForAllAndHalfOfItForEach) {
  EXPECT_THAT(Begin("a", 501).status().message(), HasSubstr("half"));
  ASSERT_TRUE(Begin("a", 300).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Begin("b", 201).status()));
  ASSERT_TRUE(Begin("b", 200).ok());
  ASSERT_TRUE(Begin("a", 400, "token:bob").ok());
  const absl::Status full = Begin("c", 101, "token:eve").status();
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(full.message(), HasSubstr("--upload-limit"));
}

TEST_F(UploadStagingTest, AnOperatorMayTakeAll) {
  EXPECT_TRUE(Begin("a", 1000, "uid:0", true).ok());
}

TEST_F(UploadStagingTest, EmptyUploadsAreCounted) {
  for (size_t i = 0; i < UploadStaging::kMostPerOwner; ++i) {
    ASSERT_TRUE(Begin(absl::StrCat("d", i), 0).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Begin("more", 0).status()));
}

TEST_F(UploadStagingTest, ALimitOf0RefusesUploads) {
  options_.limit_bytes = 0;
  Open();
  EXPECT_TRUE(absl::IsPermissionDenied(Begin("a", 0, "uid:0", true).status()));
}

TEST_F(UploadStagingTest, OnlyAWholeUploadIsASource) {
  const std::string id = Begin("a", 10)->id();
  const absl::Status early = staging_->SourceOf(id).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(early));
  EXPECT_THAT(early.message(), HasSubstr("of 10 bytes 0"));
  EXPECT_TRUE(fs::exists(*staging_->SourceOf(Whole("b")) + "/file"));
  EXPECT_TRUE(absl::IsNotFound(staging_->SourceOf("upload-0").status()));
}

TEST_F(UploadStagingTest, AnUploadGoesWhenItsJobHasEnded) {
  const std::string id = Whole("cora");
  const std::string job = NewJob(id);
  staging_->Use(id, job);
  clock_.seconds += 1e9;
  staging_->RemoveUnused();
  EXPECT_TRUE(IsThere(id));
  End(job);
  staging_->OnJobEvent(job);
  staging_->RemoveUnused();
  EXPECT_FALSE(IsThere(id));
}

TEST_F(UploadStagingTest, AStartFindsTheJobs) {
  const std::string running = Whole("a");
  const std::string ended = Whole("b");
  const std::string unused = Whole("c");
  const std::string job = NewJob(running);
  End(NewJob(ended));
  Open();
  EXPECT_TRUE(IsThere(running));
  EXPECT_FALSE(IsThere(ended));
  EXPECT_TRUE(IsThere(unused));
  End(job);
  staging_->OnJobEvent(job);
  staging_->RemoveUnused();
  EXPECT_FALSE(IsThere(running));
}

TEST_F(UploadStagingTest, AnAbandonedUploadGoes) {
  const double patience = absl::ToDoubleSeconds(options_.patience);
  const std::string id = Begin("a", 10)->id();
  Send(id, 0, 3);
  clock_.seconds += patience - 60;
  staging_->RemoveUnused();
  ASSERT_TRUE(IsThere(id));
  Send(id, 3, 3);
  clock_.seconds += 120;
  // Asking for the upload is no progress.
  EXPECT_EQ(Begin("a", 10)->id(), id);
  staging_->RemoveUnused();
  ASSERT_TRUE(IsThere(id));
  clock_.seconds += patience;
  staging_->RemoveUnused();
  EXPECT_FALSE(IsThere(id));
}

TEST_F(UploadStagingTest, AnUploadOfWhichNothingComesGoesSoon) {
  const std::string id = Begin("a", 10)->id();
  clock_.seconds += 9 * 60;
  staging_->RemoveUnused();
  ASSERT_TRUE(IsThere(id));
  clock_.seconds += 2 * 60;
  staging_->RemoveUnused();
  EXPECT_FALSE(IsThere(id));
}

TEST_F(UploadStagingTest, FilesThatAreImportedAreNotReplaced) {
  const std::string id = Whole("cora");
  staging_->Use(id, NewJob(id));
  EXPECT_EQ(Begin("cora", 100)->id(), id);
  EXPECT_TRUE(absl::IsFailedPrecondition(Begin("cora", 101).status()));
}

TEST_F(UploadStagingTest, ListsByTheNamesOfDatasets) {
  const std::string half = Begin("b", 10)->id();
  Send(half, 0, 4);
  const std::string whole = Whole("c");
  const std::string job = NewJob(whole);
  staging_->Use(whole, job);
  const std::string bobs = Begin("a", 20, "token:bob")->id();
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) Open();
    const std::vector<v1::Upload> uploads = staging_->List();
    ASSERT_EQ(uploads.size(), 3);
    EXPECT_EQ(uploads[0].id(), bobs);
    EXPECT_EQ(uploads[0].owner(), "token:bob");
    EXPECT_EQ(uploads[1].name(), "b");
    EXPECT_EQ(uploads[1].num_files(), 1);
    EXPECT_EQ(uploads[1].received_bytes(), 4);
    EXPECT_EQ(uploads[1].size_bytes(), 10);
    EXPECT_EQ(uploads[1].job_id(), "");
    EXPECT_EQ(uploads[2].job_id(), job);
    EXPECT_FALSE(uploads[2].has_expire_time());
  }
}

TEST_F(UploadStagingTest, TellsWhenAnUploadGoes) {
  const auto left = [&] {
    const v1::Upload upload = staging_->List()[0];
    return absl::ToDoubleSeconds(
        absl::FromUnixSeconds(upload.expire_time().seconds()) - clock_.Now());
  };
  const std::string id = Begin("a", 10)->id();
  EXPECT_NEAR(left(), 10 * 60, 60);
  Send(id, 0, 3);
  EXPECT_NEAR(left(), 24 * 3600, 60);
  clock_.seconds += 3600;
  EXPECT_NEAR(left(), 23 * 3600, 60);
}

TEST_F(UploadStagingTest, ADeletedUploadGivesBackItsRoom) {
  const std::string id = Begin("a", 500)->id();
  Send(id, 0, 100);
  ASSERT_TRUE(absl::IsResourceExhausted(Begin("b", 500).status()));
  ASSERT_TRUE(staging_->Delete(id).ok());
  EXPECT_FALSE(fs::exists(folder_.Path("uploads/" + id)));
  EXPECT_TRUE(absl::IsNotFound(staging_->Delete(id)));
  EXPECT_TRUE(absl::IsNotFound(staging_->Find(id).status()));
  EXPECT_TRUE(Begin("b", 500).ok());
  Open();
  EXPECT_EQ(staging_->List().size(), 1);
}

TEST_F(UploadStagingTest, WhatAJobUsesIsNotDeleted) {
  const std::string id = Whole("cora");
  const std::string job = NewJob(id);
  staging_->Use(id, job);
  const absl::Status used = staging_->Delete(id);
  EXPECT_TRUE(absl::IsFailedPrecondition(used));
  EXPECT_THAT(used.message(), HasSubstr(job));
  EXPECT_TRUE(IsThere(id));
}

// Bytes that arrive meanwhile do not make the folder again.
TEST_F(UploadStagingTest, ADeletedUploadTakesNothingMore) {
  const std::string id = Begin("a", 10)->id();
  Send(id, 0, 3);
  const auto upload = *staging_->Find(id);
  ASSERT_TRUE(staging_->Delete(id).ok());
  const std::string rest(7, 'x');
  // The open file takes bytes; only the end of the file shows it.
  ASSERT_TRUE(upload
                  ->Append(3, {reinterpret_cast<const std::byte*>(rest.data()),
                               rest.size()})
                  .ok());
  EXPECT_TRUE(absl::IsNotFound(upload->FinishFile()));
  EXPECT_TRUE(fs::is_empty(folder_.Path("uploads")));
}

TEST_F(UploadStagingTest, WhatCannotBeDeletedStays) {
  const std::string id = Whole("a");
  files_.Inject({.only = io::Operation::kRename});
  EXPECT_TRUE(absl::IsUnavailable(staging_->Delete(id)));
  EXPECT_TRUE(IsThere(id));
  files_.Clear();
  EXPECT_TRUE(staging_->Delete(id).ok());
  EXPECT_FALSE(IsThere(id));
}

TEST_F(UploadStagingTest, AStartRemovesWhatIsNoUpload) {
  fs::create_directories(folder_.Path("uploads/upload-0/source"));
  Open();
  EXPECT_FALSE(fs::exists(folder_.Path("uploads/upload-0")));
}

}  // namespace
}  // namespace hearth::server
