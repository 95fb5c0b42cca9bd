// The messages of google.rpc (Status, Any, BadRequest) are read field by field
// because Debian packages their .proto files nowhere, and a second copy of
// their descriptors in one process would abort it:
//
//   Status         { int32 code = 1; string message = 2; repeated Any details =
//   3; } Any            { string type_url = 1; bytes value = 2; } BadRequest {
//   repeated FieldViolation field_violations = 1; } FieldViolation { string
//   field = 1; string description = 2; }

#include "client/rpc_status.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace hearth::client {
namespace {

using google::protobuf::internal::WireFormatLite;

// The values of all length-delimited fields numbered `number` of a serialized
// message, up to the first byte that cannot be read.
std::vector<std::string> BytesFields(const std::string& message, int number) {
  google::protobuf::io::CodedInputStream input(
      reinterpret_cast<const uint8_t*>(message.data()),
      static_cast<int>(message.size()));
  std::vector<std::string> values;
  while (const uint32_t tag = input.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) !=
        WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&input, tag)) break;
      continue;
    }
    std::string value;
    if (!WireFormatLite::ReadBytes(&input, &value)) break;
    if (WireFormatLite::GetTagFieldNumber(tag) == number) {
      values.push_back(std::move(value));
    }
  }
  return values;
}

// "field: description" for each violation of a serialized BadRequest.
std::vector<std::string> Violations(const std::string& bad_request) {
  std::vector<std::string> lines;
  for (const std::string& violation : BytesFields(bad_request, 1)) {
    lines.push_back(absl::StrCat(absl::StrJoin(BytesFields(violation, 1), ""),
                                 ": ",
                                 absl::StrJoin(BytesFields(violation, 2), "")));
  }
  return lines;
}

}  // namespace

absl::Status RpcStatus(int code, const std::string& message,
                       const std::string& details) {
  if (code == 0) return absl::OkStatus();
  std::string text = message;
  for (const std::string& detail : BytesFields(details, 3)) {
    google::protobuf::Any any;
    if (!any.ParseFromString(detail) ||
        !absl::EndsWith(any.type_url(), "/google.rpc.BadRequest")) {
      continue;
    }
    for (const std::string& line : Violations(any.value())) {
      // Some servers repeat the violation in the message.
      if (!absl::StrContains(text, line)) {
        absl::StrAppend(&text, text.empty() ? "" : ": ", line);
      }
    }
  }
  return absl::Status(static_cast<absl::StatusCode>(code), text);
}

}  // namespace hearth::client
