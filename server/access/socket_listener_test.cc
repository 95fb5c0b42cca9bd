#include "server/access/socket_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SocketListenerTest : public ::testing::Test {
 protected:
  SocketListenerTest() { fs::create_directories(folder_); }
  ~SocketListenerTest() override { fs::remove_all(folder_); }

  static mode_t ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }

  // Short: the path of a socket has 107 bytes at most.
  const std::string folder_ = absl::StrCat("/tmp/hearth-socket-", getpid());
  const std::string path_ = folder_ + "/s";
};

TEST_F(SocketListenerTest, TheSocketIsItsOwnersAndGoesWithTheListener) {
  {
    const auto listener = SocketListener::Bind(path_, std::nullopt);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(ModeOf(path_), 0600u);
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(SocketListenerTest, AGroupMayUseIt) {
  const auto listener = SocketListener::Bind(path_, getegid());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_EQ(ModeOf(path_), 0660u);
}

TEST_F(SocketListenerTest, ASocketThatWasLeftIsReplaced) {
  const auto left = SocketListener::Bind(path_, std::nullopt);
  ASSERT_TRUE(left.ok());
  EXPECT_TRUE(SocketListener::Bind(path_, std::nullopt).ok());
}

TEST_F(SocketListenerTest, AnotherFileIsLeftAlone) {
  std::ofstream(path_) << "mine";
  const auto listener = SocketListener::Bind(path_, std::nullopt);
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs::file_size(path_), 4u);
  fs::remove(path_);
  fs::create_symlink("/etc/passwd", path_);
  EXPECT_FALSE(SocketListener::Bind(path_, std::nullopt).ok());
  EXPECT_TRUE(fs::is_symlink(path_));
}

TEST_F(SocketListenerTest, APathThatIsTooLongIsRefusedWithItsLength) {
  const std::string longest =
      folder_ + "/" + std::string(107 - folder_.size() - 1, 'x');
  EXPECT_TRUE(SocketListener::Bind(longest, std::nullopt).ok());
  const auto longer = SocketListener::Bind(longest + "x", std::nullopt);
  EXPECT_EQ(longer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(longer.status().message()), HasSubstr("108 bytes"));
  EXPECT_THAT(std::string(longer.status().message()), HasSubstr("107"));
}

TEST(IdOfUnknownUsersTest, ItIsTheOverflowIdUnlessAUserHasIt) {
  EXPECT_EQ(IdOfUnknownUsers("         0          0 4294967295\n", 65534),
            std::nullopt);
  EXPECT_EQ(IdOfUnknownUsers("0 1000 1\n1 100000 65536\n", 65534),
            std::nullopt);
  EXPECT_EQ(IdOfUnknownUsers("0 1000 1\n", 65534), 65534u);
  EXPECT_EQ(IdOfUnknownUsers("0 100000 65534\n65535 1 9\n", 65534), 65534u);
  EXPECT_EQ(IdOfUnknownUsers("", 65534), 65534u);
}

TEST_F(SocketListenerTest, AFolderThatIsMissingIsNamed) {
  const auto listener = SocketListener::Bind(folder_ + "/no/s", std::nullopt);
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hearth::server
