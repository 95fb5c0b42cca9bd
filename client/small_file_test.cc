#include "client/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hearth::client {
namespace {

namespace fs = std::filesystem;

class SmallFileTest : public ::testing::Test {
 protected:
  SmallFileTest() { fs::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "/small_file_test";
  const std::string path_ = folder_ + "/secret";
};

TEST_F(SmallFileTest, WhatIsWrittenIsItsOwnersAlone) {
  ASSERT_TRUE(WriteSmallFile(path_, "first").ok());
  ASSERT_TRUE(WriteSmallFile(path_, "second").ok());
  EXPECT_EQ(*ReadSecret(path_), "second");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms(0600));
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms(0700));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(SmallFileTest, ASecretThatEverybodyReadsIsRefusedAndNotShown) {
  ASSERT_TRUE(WriteSmallFile(path_, "swordfish").ok());
  fs::permissions(path_, fs::perms(0604));
  const auto text = ReadSecret(path_);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(text.status().message().find("swordfish"), std::string::npos);
  EXPECT_EQ(*ReadSmallFile(path_), "swordfish");
}

TEST_F(SmallFileTest, WhatCannotBeReadIsNamed) {
  EXPECT_EQ(ReadSmallFile(path_).status().code(), absl::StatusCode::kNotFound);
  fs::create_directories(folder_);
  EXPECT_FALSE(ReadSmallFile(folder_).ok());
  std::ofstream(path_) << std::string((1 << 20) + 1, 'x');
  EXPECT_EQ(ReadSmallFile(path_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SmallFileTest, AFolderThatCannotBeMadeIsNamed) {
  fs::create_directories(folder_);
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_FALSE(WriteSmallFile(folder_ + "/file/secret", "x").ok());
}

}  // namespace
}  // namespace hearth::client
