// google.rpc.Status is written field by field, because Debian packages its
// .proto nowhere:
//
//   Status { int32 code = 1; string message = 2; repeated Any details = 3; }
#include "server/mapping/status_mapping.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace hearth::server {
namespace {

using google::protobuf::internal::WireFormatLite;

// A serialized google.rpc.Status; empty if `status` has no payloads.
std::string SerializeDetails(const absl::Status& status,
                             const std::string& message) {
  std::string bytes;
  bool has_payload = false;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    WireFormatLite::WriteInt32(1, static_cast<int>(status.code()), &out);
    WireFormatLite::WriteString(2, message, &out);
    status.ForEachPayload(
        [&](absl::string_view type_url, const absl::Cord& payload) {
          google::protobuf::Any any;
          any.set_type_url(std::string(type_url));
          any.set_value(std::string(payload));
          WireFormatLite::WriteBytes(3, any.SerializeAsString(), &out);
          has_payload = true;
        });
  }
  return has_payload ? bytes : std::string();
}

// The first bytes of `text`, without half a UTF-8 character at the end.
std::string Cut(absl::string_view text) {
  if (text.size() <= kMaxMessageLength) return std::string(text);
  size_t length = kMaxMessageLength;
  while (length > 0 &&
         (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) {
    --length;
  }
  return std::string(text.substr(0, length)) + "...";
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = Cut(status.message());
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      SerializeDetails(status, message));
}

}  // namespace hearth::server
