#include "client/rpc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace hearth::client {
namespace {

using ::testing::HasSubstr;

// A length-delimited field of fewer than 128 bytes.
std::string Field(int number, const std::string& value) {
  std::string field;
  field.push_back(static_cast<char>(number << 3 | 2));
  field.push_back(static_cast<char>(value.size()));
  return field + value;
}

std::string Violation(const std::string& field, const std::string& text) {
  return Field(1, Field(1, field) + Field(2, text));
}

std::string StatusWith(const std::string& type, const std::string& detail) {
  return std::string("\x08\x03", 2) + Field(2, "invalid job") +
         Field(3, Field(1, type) + Field(2, detail));
}

constexpr char kBadRequest[] = "type.googleapis.com/google.rpc.BadRequest";

TEST(RpcStatus, OkIsOk) { EXPECT_TRUE(RpcStatus(0, "", "").ok()); }

TEST(RpcStatus, KeepsCodeAndMessage) {
  const absl::Status status = RpcStatus(5, "no dataset \"x\"", "");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no dataset \"x\"");
}

TEST(RpcStatus, AppendsEachFieldViolation) {
  const absl::Status status =
      RpcStatus(3, "invalid job",
                StatusWith(kBadRequest, Violation("epochs", "too many") +
                                            Violation("lr", "not finite")));
  EXPECT_EQ(status.message(), "invalid job: epochs: too many: lr: not finite");
}

TEST(RpcStatus, DoesNotRepeatWhatTheMessageSays) {
  const absl::Status status =
      RpcStatus(3, "epochs: too many",
                StatusWith(kBadRequest, Violation("epochs", "too many")));
  EXPECT_EQ(status.message(), "epochs: too many");
}

TEST(RpcStatus, LeavesOtherDetailsOut) {
  const absl::Status status = RpcStatus(
      3, "no", StatusWith("type.googleapis.com/google.rpc.Help", "abc"));
  EXPECT_EQ(status.message(), "no");
}

TEST(RpcStatus, SurvivesDetailsCutAnywhere) {
  const std::string details =
      StatusWith(kBadRequest, Violation("epochs", "too many"));
  for (size_t size = 0; size < details.size(); ++size) {
    EXPECT_THAT(
        std::string(RpcStatus(3, "no", details.substr(0, size)).message()),
        HasSubstr("no"))
        << size;
  }
}

}  // namespace
}  // namespace hearth::client
