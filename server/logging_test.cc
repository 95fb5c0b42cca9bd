#include "server/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

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

}  // namespace
}  // namespace hearth::server
