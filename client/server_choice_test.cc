#include "client/server_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

  // A short path: a socket's path has 107 bytes at most.
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
  // A socket without a listener, as after kill -9.
  EXPECT_EQ(*DefaultServer({}), "127.0.0.1:7600");
  setenv("HEARTH_HOME", (folder_ + std::string(200, 'x')).c_str(), 1);
  EXPECT_EQ(*DefaultServer({}), "127.0.0.1:7600");
}

// The listener on a port may be another user's program.
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

class ContextsTest : public ::testing::Test {
 protected:
  ContextsTest() { std::filesystem::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "/contexts_test";
  const std::string path_ = folder_ + "/deep/contexts.json";
};

TEST_F(ContextsTest, WithoutAFileThereAreNone) {
  const auto contexts = ReadContexts(path_);
  ASSERT_TRUE(contexts.ok()) << contexts.status();
  EXPECT_TRUE(contexts->by_name.empty());
  EXPECT_EQ(contexts->current, "");
}

TEST_F(ContextsTest, WhatIsWrittenIsRead) {
  Contexts contexts;
  contexts.current = "lab";
  contexts.by_name["lab"] = {.server = "gpu-box:7600",
                             .files = {.ca = "/ca.pem",
                                       .certificate = "/me.pem",
                                       .key = "/me.key",
                                       .token = "/token"}};
  contexts.by_name["local"] = {.server = "unix:/d/hearth.sock"};
  ASSERT_TRUE(WriteContexts(contexts, path_).ok());
  const auto read = ReadContexts(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->current, "lab");
  const auto lab = FindContext(*read, "lab");
  ASSERT_TRUE(lab.ok());
  EXPECT_EQ(lab->server, "gpu-box:7600");
  EXPECT_EQ(lab->files.ca, "/ca.pem");
  EXPECT_EQ(lab->files.certificate, "/me.pem");
  EXPECT_EQ(lab->files.key, "/me.key");
  EXPECT_EQ(lab->files.token, "/token");
  EXPECT_EQ(FindContext(*read, "local")->files.token, "");
  EXPECT_THAT(std::string(FindContext(*read, "lap").status().message()),
              HasSubstr("lab, local"));
}

TEST_F(ContextsTest, DamagedFilesAreNamed) {
  std::filesystem::create_directories(folder_ + "/deep");
  for (const char* text :
       {"", "{", "[]", "{}", "{\"contexts\": {\"a\": 1}}",
        "{\"contexts\": {\"a\": {}}}", "{\"contexts\": {}, \"current\": 1}",
        "{\"contexts\": {\"a\": {\"server\": 7}}}",
        "{\"contexts\": {\"a\": {\"server\": \"x\", \"ca\": []}}}"}) {
    std::ofstream(path_, std::ios::trunc) << text;
    const auto contexts = ReadContexts(path_);
    EXPECT_EQ(contexts.status().code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(contexts.status().message()), HasSubstr(path_));
  }
}

TEST_F(ContextsTest, NamesArePlain) {
  EXPECT_TRUE(CheckContextName("gpu-box_2.lab").ok());
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a/b"),
        std::string("\n"), std::string(65, 'a')}) {
    EXPECT_FALSE(CheckContextName(name).ok()) << name;
  }
}

TEST_F(ContextsTest, TheFileIsWhereTheEnvironmentSays) {
  setenv("HOME", "/home/me", 1);
  unsetenv("XDG_CONFIG_HOME");
  unsetenv("HEARTH_CONTEXTS");
  EXPECT_EQ(ContextsPath(), "/home/me/.config/hearth/contexts.json");
  setenv("XDG_CONFIG_HOME", "relative", 1);
  EXPECT_EQ(ContextsPath(), "/home/me/.config/hearth/contexts.json");
  setenv("XDG_CONFIG_HOME", "/config", 1);
  EXPECT_EQ(ContextsPath(), "/config/hearth/contexts.json");
  setenv("HEARTH_CONTEXTS", "/mine.json", 1);
  EXPECT_EQ(ContextsPath(), "/mine.json");
}

}  // namespace

}  // namespace hearth::client
