#include "server/jobs/dataset_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ImportSourceTest : public testing::Test {
 protected:
  ImportSourceTest() {
    fs::remove_all(base_);
    fs::create_directories(base_ + "/root/graph");
    fs::create_directories(base_ + "/elsewhere");
    std::ofstream(base_ + "/root/graph/node_feat.npy") << "x";
    std::ofstream(base_ + "/elsewhere/secret.npy") << "x";
  }

  const std::string base_ =
      absl::StrCat(testing::TempDir(), "/import_source_test");
  const std::vector<std::string> roots_ = {base_ + "/root"};
};

TEST_F(ImportSourceTest, WithoutRootsAnyFolderWill) {
  EXPECT_TRUE(CheckImportSource(base_ + "/elsewhere", {}).ok());
  EXPECT_TRUE(absl::IsNotFound(CheckImportSource(base_ + "/missing", {})));
}

TEST_F(ImportSourceTest, ALinkToNothingIsToldFromNothing) {
  fs::create_directory_symlink(base_ + "/gone", base_ + "/link");
  const absl::Status status = CheckImportSource(base_ + "/link", {});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/link: is a link to nothing"));
}

TEST_F(ImportSourceTest, UnderARootIsAllowed) {
  EXPECT_TRUE(CheckImportSource(base_ + "/root/graph", roots_).ok());
  EXPECT_TRUE(CheckImportSource(base_ + "/root//graph/", roots_).ok());
  EXPECT_TRUE(CheckImportSource(base_ + "/root", roots_).ok());
  EXPECT_TRUE(
      CheckImportSource(base_ + "/root/graph", {base_ + "/root/"}).ok());
  EXPECT_TRUE(CheckImportSource(base_ + "/elsewhere",
                                {base_ + "/root", base_ + "/elsewhere"})
                  .ok());
  EXPECT_TRUE(
      absl::IsNotFound(CheckImportSource(base_ + "/root/none", roots_)));
}

TEST_F(ImportSourceTest, OutsideTheRootsIsDenied) {
  fs::create_directories(base_ + "/root2");
  for (const std::string& path :
       {base_ + "/elsewhere", base_ + "/root2", base_ + "/root/../elsewhere",
        base_ + "/root/graph/../../elsewhere"}) {
    const absl::Status status = CheckImportSource(path, roots_);
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << path << status;
  }
}

TEST_F(ImportSourceTest, LinksOutOfARootAreDenied) {
  fs::create_directory_symlink(base_ + "/elsewhere", base_ + "/root/link");
  EXPECT_TRUE(absl::IsPermissionDenied(
      CheckImportSource(base_ + "/root/link", roots_)));
  fs::create_symlink(base_ + "/elsewhere/secret.npy",
                     base_ + "/root/graph/node_label.npy");
  const absl::Status status = CheckImportSource(base_ + "/root/graph", roots_);
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("node_label.npy"));
  EXPECT_TRUE(CheckImportSource(base_ + "/root/graph", {}).ok());
}

TEST_F(ImportSourceTest, LinksAnywhereBelowTheSourceAreDenied) {
  fs::create_directories(base_ + "/root/graph/raw/deep");
  EXPECT_TRUE(CheckImportSource(base_ + "/root/graph", roots_).ok());
  fs::create_symlink(base_ + "/elsewhere/secret.npy",
                     base_ + "/root/graph/raw/deep/link");
  const absl::Status status = CheckImportSource(base_ + "/root/graph", roots_);
  EXPECT_TRUE(absl::IsPermissionDenied(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("graph/raw/deep/link"));
}

TEST_F(ImportSourceTest, ASourceMayBeAFileButNothingElse) {
  const std::string path = base_ + "/root/edges.txt";
  std::ofstream(path) << "0 1\n";
  const std::string pipe = base_ + "/root/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::vector<std::string>& roots :
       {std::vector<std::string>(), roots_}) {
    EXPECT_TRUE(CheckImportSource(path, roots).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(CheckImportSource(pipe, roots)));
  }
}

}  // namespace
}  // namespace hearth::server
