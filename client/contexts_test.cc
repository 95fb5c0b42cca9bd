#include "client/contexts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace hearth::client {
namespace {

using ::testing::HasSubstr;

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
