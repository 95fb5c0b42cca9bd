#include "server/mapping/status_mapping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/mapping/field_violations.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

TEST(StatusMappingTest, CodesKeepTheirNumbers) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpcStatus(
        absl::Status(static_cast<absl::StatusCode>(code), "message"));
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    EXPECT_EQ(status.error_message(), "message");
    EXPECT_EQ(status.error_details(), "");
  }
}

// The bytes of google.rpc.Status { code: 3, message: "f: d", details:
// Any { BadRequest { field_violations { field: "f", description: "d" } } } },
// by protobuf's encoding rules.
TEST(StatusMappingTest, FieldViolationsTravelAsBadRequest) {
  FieldViolations violations;
  violations.Add("f", "d");
  const grpc::Status status = ToGrpcStatus(violations.ToStatus());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "f: d");
  const std::string url = kBadRequestTypeUrl;
  const std::string bad_request =
      "\x0a\x06\x0a\x01"
      "f"
      "\x12\x01"
      "d";
  const std::string any =
      "\x0a" + std::string(1, static_cast<char>(url.size())) + url + "\x12" +
      std::string(1, static_cast<char>(bad_request.size())) + bad_request;
  EXPECT_EQ(status.error_details(),
            "\x08\x03\x12\x04"
            "f: d"
            "\x1a" +
                std::string(1, static_cast<char>(any.size())) + any);
}

TEST(StatusMappingTest, LongMessagesAreCutBetweenCharacters) {
  const std::string long_text(kMaxMessageLength - 1, 'x');
  const grpc::Status status =
      ToGrpcStatus(absl::InternalError(long_text + "\u00e9\u00e9"));
  EXPECT_EQ(status.error_message(), long_text + "...");
  EXPECT_EQ(ToGrpcStatus(absl::InternalError(long_text + "x")).error_message(),
            long_text + "x");
}

TEST(FieldViolationsTest, MessagesListThemInOrder) {
  FieldViolations violations;
  EXPECT_TRUE(violations.empty());
  EXPECT_TRUE(violations.ToStatus().ok());
  violations.Add("a", "must be b");
  violations.Add("c", "must be d");
  const absl::Status status =
      violations.ToStatus(absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a: must be b; c: must be d"));
}

}  // namespace
}  // namespace hearth::server
