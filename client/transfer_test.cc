#include "client/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/hearth_client.h"
#include "engine/base/sha256.h"
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"

namespace hearth::client {

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// SHA-256 of "abc" (FIPS 180-2, appendix B.1).
constexpr char kDigestOfAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class UploadFilesTest : public testing::Test {
 protected:
  UploadFilesTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/b/empty_folder");
    Write("b/c", "abc");
    Write("b/e", "");
    Write("a", std::string(3000, 'x'));
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }

  absl::StatusOr<std::unique_ptr<UploadFiles>> Find(const std::string& path) {
    return UploadFiles::Find(
        path, [this](uint64_t done, uint64_t) { progress_ = done; }, stop_);
  }

  const std::string folder_ = absl::StrCat(
      testing::TempDir(), "/upload_files_",
      testing::UnitTest::GetInstance()->current_test_info()->name());
  uint64_t progress_ = 0;
  std::stop_token stop_;
};

TEST_F(UploadFilesTest, AnnouncesAllFilesOfAFolder) {
  const auto files = Find(folder_);
  ASSERT_TRUE(files.ok()) << files.status();
  const v1::BeginUploadRequest& request = (*files)->request();
  ASSERT_EQ(request.files_size(), 3);
  EXPECT_EQ(request.files(0).path(), "a");
  EXPECT_EQ(request.files(0).size_bytes(), 3000);
  EXPECT_EQ(request.files(1).path(), "b/c");
  EXPECT_EQ(request.files(1).sha256(), kDigestOfAbc);
  EXPECT_EQ(request.files(2).path(), "b/e");
  EXPECT_FALSE(request.is_file());
  EXPECT_EQ(progress_, 3003);
}

TEST_F(UploadFilesTest, ReadsTheFilesAsOneRow) {
  const auto files = Find(folder_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(*(*files)->Read(2999, 100), "x");
  EXPECT_EQ(*(*files)->Read(3000, 2), "ab");
  EXPECT_EQ(*(*files)->Read(3002, 100), "c");
  EXPECT_EQ(*(*files)->Read(3003, 100), "");
}

TEST_F(UploadFilesTest, OneFileIsNoFolder) {
  const auto files = Find(folder_ + "/b/c");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_TRUE((*files)->request().is_file());
  EXPECT_EQ((*files)->request().files(0).path(), "c");
}

TEST_F(UploadFilesTest, AFileThatBecomesShorterIsNamed) {
  const auto files = Find(folder_);
  ASSERT_TRUE(files.ok()) << files.status();
  Write("a", "x");
  const absl::Status status = (*files)->Read(1000, 100).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr(folder_ + "/a"));
}

TEST_F(UploadFilesTest, WhatIsNoFileIsRefused) {
  EXPECT_TRUE(absl::IsNotFound(Find(folder_ + "/none").status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Find(folder_ + "/b/empty_folder").status()));
  fs::create_directory_symlink("b", folder_ + "/link");
  const absl::Status status = Find(folder_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("link"));
}

TEST_F(UploadFilesTest, ALinkToAFileHasItsOwnName) {
  Write("../outside_of_upload", "abc");
  fs::create_symlink(folder_ + "/../outside_of_upload", folder_ + "/b/d");
  fs::create_symlink("a", folder_ + "/z");
  // Different paths of the same folder.
  for (const char* end : {"", "/", "/b/.."}) {
    const auto files = Find(folder_ + end);
    ASSERT_TRUE(files.ok()) << files.status();
    const v1::BeginUploadRequest& request = (*files)->request();
    ASSERT_EQ(request.files_size(), 5);
    EXPECT_EQ(request.files(0).path(), "a");
    EXPECT_EQ(request.files(2).path(), "b/d");
    EXPECT_EQ(request.files(2).sha256(), kDigestOfAbc);
    EXPECT_EQ(request.files(4).path(), "z");
    EXPECT_EQ(request.files(4).size_bytes(), 3000);
  }
}

TEST_F(UploadFilesTest, ALinkToItselfIsRefused) {
  fs::create_symlink("loop", folder_ + "/loop");
  const absl::Status status = Find(folder_).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr(folder_ + "/loop"));
}

TEST_F(UploadFilesTest, StopsOnRequest) {
  std::stop_source source;
  stop_ = source.get_token();
  source.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Find(folder_).status()));
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ModelFolderTest : public testing::Test {
 protected:
  ModelFolderTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  absl::StatusOr<std::unique_ptr<ModelFolder>> Open(bool replace = false) {
    return ModelFolder::Open(
        path_, replace, [this](uint64_t done, uint64_t) { progress_ = done; });
  }

  std::unique_ptr<ModelFolder> MustOpen(bool replace = false) {
    auto folder = Open(replace);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }

  // Hands the description and up to `size` bytes to `folder`, as the daemon
  // does.
  absl::Status Receive(ModelFolder& folder, size_t size) {
    const uint64_t offset = folder.Next().offset();
    v1::ModelChunk chunk;
    chunk.mutable_model()->set_size_bytes(text_.size());
    chunk.mutable_model()->set_config("{}");
    Sha256 digest;
    digest.Update(text_);
    chunk.mutable_model()->set_sha256(digest.HexDigest());
    const absl::Status described = folder.Take(chunk);
    if (!described.ok()) return described;
    v1::ModelChunk data;
    data.set_data(text_.substr(offset, size));
    return folder.Take(data);
  }

  void ExpectModel() {
    EXPECT_EQ(ReadFile(path_ + "/model.safetensors"), text_);
    EXPECT_EQ(ReadFile(path_ + "/config.json"), "{}");
    EXPECT_FALSE(fs::exists(path_ + "/sha256"));
    EXPECT_FALSE(fs::exists(path_ + ".part"));
  }

  const std::string folder_ = absl::StrCat(
      testing::TempDir(), "/model_folder_",
      testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = folder_ + "/model";
  std::string text_ = std::string(100, 'a') + std::string(50, 'b');
  uint64_t progress_ = 0;
};

TEST_F(ModelFolderTest, TheModelIsThereOnceItIsWhole) {
  const auto folder = MustOpen();
  EXPECT_EQ(folder->Next().offset(), 0);
  EXPECT_EQ(folder->Next().sha256(), "");
  ASSERT_TRUE(Receive(*folder, 150).ok());
  EXPECT_EQ(progress_, 150);
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(folder->Finish().ok());
  ExpectModel();
}

TEST_F(ModelFolderTest, ASlashAtTheEndOfThePathIsNothing) {
  const auto folder = ModelFolder::Open(path_ + "//", /*replace=*/false,
                                        [](uint64_t, uint64_t) {});
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE(Receive(**folder, 150).ok());
  ASSERT_TRUE((*folder)->Finish().ok());
  ExpectModel();
}

TEST_F(ModelFolderTest, AnotherRunGoesOn) {
  ASSERT_TRUE(Receive(*MustOpen(), 60).ok());
  const auto folder = MustOpen();
  EXPECT_EQ(folder->Next().offset(), 60);
  EXPECT_NE(folder->Next().sha256(), "");
  ASSERT_TRUE(Receive(*folder, 100).ok());
  ASSERT_TRUE(folder->Finish().ok());
  ExpectModel();
}

TEST_F(ModelFolderTest, NothingIsLeftWhereNothingHasCome) {
  MustOpen();
  EXPECT_FALSE(fs::exists(path_ + ".part"));
}

TEST_F(ModelFolderTest, AnotherModelStartsOver) {
  const auto folder = MustOpen();
  ASSERT_TRUE(Receive(*folder, 60).ok());
  ASSERT_TRUE(folder->StartOver().ok());
  EXPECT_EQ(folder->Next().offset(), 0);
  EXPECT_EQ(folder->Next().sha256(), "");
  text_ = "another";
  ASSERT_TRUE(Receive(*folder, 100).ok());
  ASSERT_TRUE(folder->Finish().ok());
  ExpectModel();
}

TEST_F(ModelFolderTest, ADamagedPartIsFoundAndGoes) {
  ASSERT_TRUE(Receive(*MustOpen(), 60).ok());
  std::ofstream(path_ + ".part/model.safetensors") << std::string(60, 'x');
  const auto folder = MustOpen();
  ASSERT_TRUE(Receive(*folder, 100).ok());
  EXPECT_TRUE(absl::IsDataLoss(folder->Finish()));
  EXPECT_EQ(folder->Next().offset(), 0);
  ASSERT_TRUE(Receive(*folder, 150).ok());
  ASSERT_TRUE(folder->Finish().ok());
  ExpectModel();
}

TEST_F(ModelFolderTest, WhatIsThereIsReplacedOnlyIfAsked) {
  fs::create_directories(path_);
  std::ofstream(path_ + "/model.safetensors") << "old";
  std::ofstream(path_ + "/notes") << "mine";
  const absl::Status refused = Open().status();
  EXPECT_TRUE(absl::IsAlreadyExists(refused));
  EXPECT_THAT(refused.message(), HasSubstr("--force"));
  const auto folder = MustOpen(/*replace=*/true);
  ASSERT_TRUE(Receive(*folder, 150).ok());
  ASSERT_TRUE(folder->Finish().ok());
  ExpectModel();
  EXPECT_EQ(ReadFile(path_ + "/notes"), "mine");
}

TEST_F(ModelFolderTest, AFileIsNeverReplaced) {
  std::ofstream(path_.c_str()) << "mine";
  EXPECT_TRUE(absl::IsAlreadyExists(Open(/*replace=*/true).status()));
}

TEST_F(ModelFolderTest, OneDownloadAtATime) {
  const auto folder = MustOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(Open().status()));
}

}  // namespace

}  // namespace hearth::client
