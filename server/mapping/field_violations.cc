// google.rpc.BadRequest is written field by field, because Debian packages its
// .proto nowhere:
//
//   BadRequest     { repeated FieldViolation field_violations = 1; }
//   FieldViolation { string field = 1; string description = 2; }
#include "server/mapping/field_violations.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hearth::server {
namespace {

using google::protobuf::internal::WireFormatLite;

std::string SerializeViolation(const std::string& field,
                               const std::string& description) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    WireFormatLite::WriteString(1, field, &out);
    WireFormatLite::WriteString(2, description, &out);
  }
  return bytes;
}

}  // namespace

void FieldViolations::Add(std::string field, std::string description) {
  if (violations_.size() == kMaxViolations) return;
  violations_.emplace_back(std::move(field), std::move(description));
}

absl::Status FieldViolations::ToStatus(absl::StatusCode code) const {
  if (violations_.empty()) return absl::OkStatus();
  absl::Status status(
      code, absl::StrJoin(
                violations_, "; ", [](std::string* out, const auto& violation) {
                  absl::StrAppend(out, violation.first, ": ", violation.second);
                }));
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    for (const auto& [field, description] : violations_) {
      WireFormatLite::WriteBytes(1, SerializeViolation(field, description),
                                 &out);
    }
  }
  status.SetPayload(kBadRequestTypeUrl, absl::Cord(bytes));
  return status;
}

}  // namespace hearth::server
