#include "server/storage/outside.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace hearth::server {
namespace {

namespace fs = std::filesystem;

class OutsideTest : public testing::Test {
 protected:
  OutsideTest() {
    fs::remove_all(root_);
    fs::create_directories(root_ + "/data/jobs");
    fs::create_directories(root_ + "/database");
    fs::create_directory_symlink(root_ + "/data/jobs", root_ + "/link");
    fs::create_directory_symlink("link", root_ + "/link2");
    fs::create_directory_symlink(root_ + "/data", root_ + "/named");
  }

  bool IsOutside(const std::string& path) {
    const absl::Status status =
        CheckOutside(io::FileSystem::Posix(), root_ + "/named", root_ + path);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return status.ok();
  }

  const std::string root_ = testing::TempDir() + "/outside_test";
};

TEST_F(OutsideTest, FoldersInTheDataDirectoryAreFoundHoweverTheyAreWritten) {
  for (const char* path :
       {"/data", "/data/", "/data/x", "/data/x/y", "/data/jobs/train-1",
        "//data//x", "/data/./x", "/new/../data/x", "/database/../data/x",
        "/link/x", "/link2/x", "/link/../x", "/named/x", "/data/jobs/.."}) {
    EXPECT_FALSE(IsOutside(path)) << path;
  }
}

TEST_F(OutsideTest, OthersAreOutside) {
  for (const char* path : {"/model", "/database/x", "/datax", "/data/../x",
                           "/data/x/../../y", "/link/../../x", "/..", ""}) {
    EXPECT_TRUE(IsOutside(path)) << path;
  }
}

TEST_F(OutsideTest, AMissingDataDirectoryIsAnError) {
  EXPECT_FALSE(
      CheckOutside(io::FileSystem::Posix(), root_ + "/none", "/x").ok());
}

}  // namespace
}  // namespace hearth::server
