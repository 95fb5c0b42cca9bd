#include "server/storage/staged_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "hearth/v1/datasets.pb.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string DigestOf(const std::string& text) {
  Sha256 digest;
  digest.Update(text);
  return digest.HexDigest();
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Announce(v1::BeginUploadRequest& request, const std::string& path,
              const std::string& text) {
  v1::UploadFile& file = *request.add_files();
  file.set_path(path);
  file.set_size_bytes(text.size());
  file.set_sha256(DigestOf(text));
}

class StagedUploadTest : public testing::Test {
 protected:
  StagedUploadTest() {
    request_.set_name("cora");
    for (const auto& [path, text] : texts_) {
      Announce(request_, path, text);
      all_ += text;
    }
  }

  StagedUpload::Options options() {
    return {files_, Clock::Real(), folder_.Path("upload")};
  }

  void Make() {
    auto upload = StagedUpload::Make(options(), "token:ann", request_);
    ASSERT_TRUE(upload.ok()) << upload.status();
    upload_ = *std::move(upload);
  }

  // Loads the upload as a daemon does that was killed and started again.
  void Restart() {
    upload_ = nullptr;
    auto upload = StagedUpload::Load(options());
    ASSERT_TRUE(upload.ok()) << upload.status();
    upload_ = *std::move(upload);
  }

  absl::Status CatchUp() {
    while (true) {
      const absl::StatusOr<bool> done = upload_->CatchUp();
      if (!done.ok()) return done.status();
      if (*done) return absl::OkStatus();
    }
  }

  // Sends the next `size` bytes, or fewer at the end.
  absl::Status Send(uint64_t size) {
    const absl::Status ready = CatchUp();
    if (!ready.ok()) return ready;
    const uint64_t offset = upload_->received_bytes();
    return SendAt(offset, absl::string_view(all_).substr(offset, size));
  }

  absl::Status SendAt(uint64_t offset, absl::string_view text) {
    while (true) {
      while (upload_->IsFileFull()) {
        const absl::Status finished = upload_->FinishFile();
        if (!finished.ok()) return finished;
      }
      if (text.empty()) return absl::OkStatus();
      const absl::StatusOr<size_t> taken =
          upload_->Append(offset, BytesOf(text));
      if (!taken.ok()) return taken.status();
      offset += *taken;
      text.remove_prefix(*taken);
    }
  }

  void ExpectWhole() {
    EXPECT_TRUE(upload_->IsWhole());
    for (const auto& [path, text] : texts_) {
      EXPECT_EQ(ReadFile(upload_->SourcePath() + "/" + path), text) << path;
    }
    EXPECT_FALSE(fs::exists(folder_.Path("upload/incoming")));
  }

  const io::ScratchDirectory folder_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  const std::map<std::string, std::string> texts_ = {
      {"a.npy", std::string(5000, 'a')},
      {"deep/er/b.npy", std::string(70, 'b')},
      {"deep/empty", ""},
      {"z.npy", std::string(3000, 'z')},
      {"zz", ""}};
  v1::BeginUploadRequest request_;
  std::string all_;
  std::unique_ptr<StagedUpload> upload_;
};

TEST_F(StagedUploadTest, FilesComeInOneRow) {
  Make();
  EXPECT_EQ(upload_->size_bytes(), all_.size());
  ASSERT_TRUE(Send(all_.size()).ok());
  ExpectWhole();
}

TEST_F(StagedUploadTest, GoesOnAtAnyByteAfterARestart) {
  for (uint64_t size = 1; size < all_.size(); size += 617) {
    fs::remove_all(folder_.Path("upload"));
    Make();
    ASSERT_TRUE(Send(size).ok());
    Restart();
    EXPECT_EQ(upload_->received_bytes(), size);
    EXPECT_EQ(upload_->owner(), "token:ann");
    ASSERT_TRUE(Send(all_.size()).ok());
    ExpectWhole();
  }
}

TEST_F(StagedUploadTest, EmptyFilesAtTheEndNeedNoBytes) {
  Make();
  ASSERT_TRUE(Send(all_.size() - 1).ok());
  EXPECT_FALSE(upload_->IsWhole());
  ASSERT_TRUE(Send(1).ok());
  Restart();
  ExpectWhole();
}

TEST_F(StagedUploadTest, OnlyTheNextBytesAreTaken) {
  Make();
  ASSERT_TRUE(Send(10).ok());
  const absl::Status early = SendAt(9, "x");
  EXPECT_EQ(early.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(early.message(), HasSubstr("10 bytes have come"));
  EXPECT_EQ(SendAt(11, "x").code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(SendAt(10, all_).code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(Send(all_.size()).ok());
  ExpectWhole();
}

TEST_F(StagedUploadTest, OtherBytesThanAnnouncedHaveToComeAgain) {
  Make();
  ASSERT_TRUE(CatchUp().ok());
  const absl::Status other = SendAt(0, std::string(5000, 'x'));
  EXPECT_TRUE(absl::IsAborted(other));
  EXPECT_THAT(other.message(), HasSubstr("a.npy"));
  EXPECT_EQ(upload_->received_bytes(), 0);
  ASSERT_TRUE(Send(all_.size()).ok());
  ExpectWhole();
}

TEST_F(StagedUploadTest, NobodyWaitsForASync) {
  Make();
  ASSERT_TRUE(CatchUp().ok());
  files_.Inject({.effect = io::Effect::kBlock, .only = io::Operation::kSync});
  ASSERT_TRUE(upload_->Append(0, BytesOf(all_)).ok());
  std::thread slow([&] { EXPECT_TRUE(upload_->FinishFile().ok()); });
  while (files_.hits() == 0) std::this_thread::yield();
  EXPECT_TRUE(upload_->IsFileFull());
  EXPECT_FALSE(upload_->IsWhole());
  EXPECT_EQ(upload_->received_bytes(), 5000);
  EXPECT_EQ(upload_->Append(5000, BytesOf("b")).value(), 0);
  files_.Clear();
  slow.join();
  ASSERT_TRUE(Send(all_.size()).ok());
  ExpectWhole();
}

// A power loss may leave zeros where bytes were.
TEST_F(StagedUploadTest, WhatTheDiskHasLostHasToComeAgain) {
  Make();
  ASSERT_TRUE(Send(4000).ok());
  std::ofstream(folder_.Path("upload/incoming"), std::ios::binary)
      << std::string(4000, '\0');
  Restart();
  EXPECT_TRUE(absl::IsAborted(Send(all_.size())));
  EXPECT_EQ(upload_->received_bytes(), 0);
  ASSERT_TRUE(Send(all_.size()).ok());
  ExpectWhole();
}

TEST_F(StagedUploadTest, ADamagedManifestIsNoUpload) {
  Make();
  upload_ = nullptr;
  std::ofstream(folder_.Path("upload/upload"), std::ios::app) << "x";
  EXPECT_TRUE(absl::IsDataLoss(StagedUpload::Load(options()).status()));
}

TEST_F(StagedUploadTest, AFullDiskLosesNothing) {
  Make();
  ASSERT_TRUE(Send(100).ok());
  files_.LimitSpace(1000);
  EXPECT_TRUE(absl::IsResourceExhausted(Send(3000)));
  EXPECT_EQ(upload_->received_bytes(), 100);
  Restart();
  // A part of the bytes fitted.
  EXPECT_GE(upload_->received_bytes(), 100);
  files_.LimitSpace(1 << 20);
  ASSERT_TRUE(Send(all_.size()).ok());
  ExpectWhole();
}

// Whichever operation fails, the upload goes on, or is sent again in part.
TEST_F(StagedUploadTest, GoesOnAfterAnyFault) {
  for (const io::Effect effect :
       {io::Effect::kFail, io::Effect::kTearWrite, io::Effect::kLoseReply}) {
    for (int64_t nth = 1;; ++nth) {
      SCOPED_TRACE(absl::StrCat("operation ", nth));
      fs::remove_all(folder_.Path("upload"));
      Make();
      ASSERT_TRUE(Send(4000).ok());
      Restart();
      files_.Inject({.nth = nth, .effect = effect});
      int errors = 0;
      while (!upload_->IsWhole()) {
        errors += Send(2000).ok() ? 0 : 1;
        ASSERT_LE(errors, 2);
      }
      const bool was_hit = files_.hits() > 0;
      files_.Clear();
      ExpectWhole();
      if (!was_hit) break;
    }
  }
}

class UploadRequestTest : public StagedUploadTest {
 protected:
  std::string Problem(const std::string& path) {
    Announce(request_, path, "");
    const absl::Status status = CheckUploadRequest(request_);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
    return std::string(status.message());
  }
};

TEST_F(UploadRequestTest, PathsStayBelowTheFolder) {
  for (const std::string path :
       {"", ".", "..", "/etc/passwd", "../x", "x/../../y", "x/..", "x//y", "x/",
        "./x", "x/./y"}) {
    v1::BeginUploadRequest request = request_;
    EXPECT_THAT(Problem(path), HasSubstr("files[5].path")) << path;
    request_ = request;
  }
  EXPECT_THAT(Problem(std::string("x\0y", 3)), HasSubstr("files[5].path"));
}

TEST_F(UploadRequestTest, PathsAreBounded) {
  EXPECT_EQ(Problem("..x/...y/a b"), "");
  EXPECT_THAT(Problem(std::string(256, 'x')), HasSubstr("files[6].path"));
  std::string deep = "f";
  for (int i = 0; i < 17; ++i) deep = "d/" + deep;
  EXPECT_THAT(Problem(deep), HasSubstr("files[7].path"));
}

TEST_F(UploadRequestTest, PathsAreDistinct) {
  EXPECT_THAT(Problem("a.npy"), HasSubstr("twice"));
  EXPECT_THAT(Problem("deep"), HasSubstr("folder of another"));
}

TEST_F(UploadRequestTest, NamesDigestsAndSizesAreChecked) {
  request_.set_name("../cora");
  request_.mutable_files(0)->set_sha256("abc");
  request_.mutable_files(1)->set_size_bytes(uint64_t{1} << 63);
  request_.set_is_file(true);
  const std::string problem(CheckUploadRequest(request_).message());
  EXPECT_THAT(problem, HasSubstr("name:"));
  EXPECT_THAT(problem, HasSubstr("files[0].sha256"));
  EXPECT_THAT(problem, HasSubstr("files[1].size_bytes"));
  EXPECT_THAT(problem, HasSubstr("is_file"));
}

}  // namespace
}  // namespace hearth::server
