#include "client/model_folder.h"

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
#include "hearth/v1/jobs.pb.h"

namespace hearth::client {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

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

  // As the daemon does: the description, and then up to `size` bytes.
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
