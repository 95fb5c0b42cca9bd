#include "client/server_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace hearth::client {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ServerChoiceTest : public ::testing::Test {
 protected:
  ServerChoiceTest() { fs::create_directories(folder_); }
  ~ServerChoiceTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms(0600));
    return path;
  }

  absl::Status Load(const CredentialFiles& files) {
    return LoadCredentials(files, options_);
  }

  // Short: the path of a socket has 107 bytes at most.
  const std::string folder_ = absl::StrCat("/tmp/hearth-choice-", getpid());
  ClientOptions options_;
};

TEST_F(ServerChoiceTest, TheSocketIsTakenWhereSomebodyListens) {
  setenv("HEARTH_HOME", folder_.c_str(), 1);
  EXPECT_EQ(*DefaultServer({}), "127.0.0.1:7600");
  const std::string path = folder_ + "/hearth.sock";
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  EXPECT_EQ(*DefaultServer({}), "127.0.0.1:7600");
  ASSERT_EQ(listen(listener, 1), 0);
  EXPECT_EQ(*DefaultServer({}), "unix:" + path);
  close(listener);
  // As kill -9 leaves it.
  EXPECT_EQ(*DefaultServer({}), "127.0.0.1:7600");
  setenv("HEARTH_HOME", (folder_ + std::string(200, 'x')).c_str(), 1);
  EXPECT_EQ(*DefaultServer({}), "127.0.0.1:7600");
}

// Who is the first to listen on a port need not be the daemon.
TEST_F(ServerChoiceTest, ATokenIsNotSentToAnAddressThatNobodyGave) {
  setenv("HEARTH_HOME", folder_.c_str(), 1);
  const auto server = DefaultServer({.token = "/token"});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(server.status().message()),
              AllOf(HasSubstr(folder_ + "/hearth.sock"),
                    HasSubstr("127.0.0.1:7600"), HasSubstr("--server")));
  EXPECT_EQ(*DefaultServer({.ca = "/ca", .token = "/token"}), "127.0.0.1:7600");
}

TEST_F(ServerChoiceTest, WhatIsOnThisMachineIsLocal) {
  for (const char* server : {"unix:/d/hearth.sock", "127.0.0.1:7600",
                             "[::1]:7600", "localhost:1", "ipv4:127.0.0.1:1"}) {
    EXPECT_TRUE(IsLocal(server)) << server;
  }
  for (const char* server :
       {"", "192.0.2.1:7600", "gpu-box:7600", "127.0.0.1.example.org:7600",
        "localhost.example.org:1", "dns:127.0.0.1:1", "[::11]:1",
        // gRPC takes lists of addresses.
        "ipv4:127.0.0.1:7600,192.0.2.1:7600", "unix:/a,/b",
        "example.org/127.0.0.1:1"}) {
    EXPECT_FALSE(IsLocal(server)) << server;
  }
}

TEST_F(ServerChoiceTest, FilesAreRead) {
  options_.server = "gpu-box:7600";
  const std::string pem = "-----BEGIN X-----\n";
  ASSERT_TRUE(Load({.ca = Write("ca", pem + "1"),
                    .certificate = Write("cert", pem + "2"),
                    .key = Write("key", pem + "3"),
                    .token = Write("token", "hearth_1\nmore\n")})
                  .ok());
  EXPECT_EQ(options_.ca, pem + "1");
  EXPECT_EQ(options_.certificate, pem + "2");
  EXPECT_EQ(options_.key, pem + "3");
  EXPECT_EQ(options_.token, "hearth_1");
}

TEST_F(ServerChoiceTest, FilesThatDoNotGoTogetherAreRefused) {
  const std::string pem = Write("pem", "-----BEGIN X-----\n");
  for (const CredentialFiles& files :
       {CredentialFiles{.certificate = pem}, CredentialFiles{.key = pem},
        CredentialFiles{.certificate = pem, .key = pem},
        CredentialFiles{.ca = pem, .certificate = pem}}) {
    EXPECT_EQ(Load(files).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(ServerChoiceTest, WhatIsNoTokenIsRefusedAndNotShown) {
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("sword fish"),
        std::string("swordfish\t"), std::string("swordfish\0", 10),
        std::string("swordfish\xff")}) {
    const absl::Status status = Load({.token = Write("token", text)});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("sword")));
  }
  const std::string token = Write("token", "swordfish\r\n");
  ASSERT_TRUE(Load({.token = token}).ok());
  EXPECT_EQ(options_.token, "swordfish");
  fs::permissions(token, fs::perms(0644));
  EXPECT_EQ(Load({.token = token}).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ServerChoiceTest, ATokenIsNotSentInTheClear) {
  options_.server = "gpu-box:7600";
  const std::string token = Write("token", "swordfish");
  const absl::Status status = Load({.token = token});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--ca"));
  EXPECT_EQ(options_.token, "");
}

}  // namespace
}  // namespace hearth::client
