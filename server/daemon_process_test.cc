#include "server/daemon_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

#include "absl/status/status.h"

namespace hearth::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LoggingTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(EscapeControlCharacters("a\nb\x1b[31m"), "a\\nb\\033[31m");
  EXPECT_EQ(EscapeControlCharacters("plain \\ \"text\" \u00e9"),
            "plain \\ \"text\" \u00e9");
}

TEST(LoggingTest, LinesCannotBeForged) {
  testing::internal::CaptureStderr();
  InitializeLogging("info");
  spdlog::info("job {}", "x\n2026 info forged");
  spdlog::debug("too quiet");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("info job x\\n2026 info forged\n"),
                         Not(HasSubstr("too quiet"))));
}

TEST(LoggingTest, ALineIsWrittenWithoutWaiting) {
  testing::internal::CaptureStderr();
  InitializeLogging("info");
  LogWithoutWaiting("over\n");
  InitializeLogging("info", LogFormat::kJson);
  LogWithoutWaiting("over");
  InitializeLogging("off");
  LogWithoutWaiting("not told");
  std::istringstream log(testing::internal::GetCapturedStderr());
  std::string line;
  ASSERT_TRUE(std::getline(log, line));
  EXPECT_THAT(line, HasSubstr("error over\\n"));
  ASSERT_TRUE(std::getline(log, line));
  EXPECT_EQ(nlohmann::json::parse(line)["message"], "over");
  EXPECT_FALSE(std::getline(log, line)) << line;
}

// A log reader that hangs blocks no thread.
TEST(LoggingTest, AFullPipeLosesTheLine) {
  InitializeLogging("info");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_NE(fcntl(ends[1], F_SETFL, O_NONBLOCK), -1);
  const std::string block(4096, 'x');
  while (write(ends[1], block.data(), block.size()) > 0) {
  }
  ASSERT_NE(fcntl(ends[1], F_SETFL, 0), -1);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  LogWithoutWaiting("lost");
  dup2(before, STDERR_FILENO);
  for (const int descriptor : {before, ends[0], ends[1]}) close(descriptor);
}

TEST(LoggingTest, LinesAboutAJobBeginWithItsId) {
  EXPECT_EQ(SubjectOf("train-7: started")->job, "train-7");
  EXPECT_EQ(SubjectOf("train-7: started")->trace_id, "");
  EXPECT_EQ(SubjectOf("export_dataset-12: FAILED: no space")->job,
            "export_dataset-12");
  EXPECT_EQ(SubjectOf("train-7 [4bf9]: a [b]: c")->job, "train-7");
  EXPECT_EQ(SubjectOf("train-7 [4bf9]: a [b]: c")->trace_id, "4bf9");
  for (const char* message : {"stopping: Terminated", "train-7", "train-: a",
                              "-7: a", "train-x: a", "Train-7: a", "/data-7: a",
                              "train-7 [4bf9: a", "train-7 4bf9: a", ""}) {
    EXPECT_FALSE(SubjectOf(message).has_value()) << message;
  }
}

TEST(LoggingTest, JsonHasALineForEachMessage) {
  testing::internal::CaptureStderr();
  InitializeLogging("info", LogFormat::kJson);
  spdlog::warn("train-7: \"x\"\n\x1b[31m \xff");
  spdlog::info("train-7 [4bf9]: started");
  spdlog::info("stopped");
  std::istringstream log(testing::internal::GetCapturedStderr());
  std::string line;
  ASSERT_TRUE(std::getline(log, line));
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
  auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["job"], "train-7");
  EXPECT_EQ(json["message"], "train-7: \"x\"\n\x1b[31m \xef\xbf\xbd");
  EXPECT_THAT(std::string(json["time"]), HasSubstr("+00:00"));
  EXPECT_FALSE(json.contains("trace_id"));
  ASSERT_TRUE(std::getline(log, line));
  json = nlohmann::json::parse(line);
  EXPECT_EQ(json["job"], "train-7");
  EXPECT_EQ(json["trace_id"], "4bf9");
  ASSERT_TRUE(std::getline(log, line));
  json = nlohmann::json::parse(line);
  EXPECT_EQ(json["message"], "stopped");
  EXPECT_FALSE(json.contains("job"));
}

TEST(InputTest, OnlyPipesAndSocketsEndWithTheirWriters) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(CheckEndsWithItsWriters(ends[0]).ok());
  for (const int descriptor : ends) close(descriptor);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_TRUE(CheckEndsWithItsWriters(ends[0]).ok());
  for (const int descriptor : ends) close(descriptor);
  const absl::Status closed = CheckEndsWithItsWriters(ends[0]);
  EXPECT_EQ(closed.code(), absl::StatusCode::kFailedPrecondition);
  const int nothing = open("/dev/null", O_RDONLY);
  EXPECT_THAT(CheckEndsWithItsWriters(nothing).message(),
              AllOf(HasSubstr("--stop-with-input"),
                    HasSubstr("neither a pipe nor a socket")));
  close(nothing);
}

TEST(InputTest, EndsWithTheLastWriter) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_FALSE(HasEnded(ends[0]));
  const int other = dup(ends[1]);
  ASSERT_EQ(write(other, "a\n", 2), 2);
  close(ends[1]);
  EXPECT_FALSE(HasEnded(ends[0]));
  int left = -1;
  ASSERT_EQ(ioctl(ends[0], FIONREAD, &left), 0);
  EXPECT_EQ(left, 0) << "a writer must not block";
  ASSERT_EQ(write(other, "b\n", 2), 2);
  close(other);
  EXPECT_FALSE(HasEnded(ends[0]));
  EXPECT_TRUE(HasEnded(ends[0]));
  close(ends[0]);
}

// As it may be where a program has left it so for another reason.
TEST(InputTest, ReadingDoesNotWait) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_NE(fcntl(ends[0], F_SETFL, O_NONBLOCK), -1);
  EXPECT_FALSE(HasEnded(ends[0]));
  close(ends[1]);
  EXPECT_TRUE(HasEnded(ends[0]));
  close(ends[0]);
}

}  // namespace
}  // namespace hearth::server
