#include "server/access/method_access.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace hearth::server {
namespace {

constexpr char kPackage[] = "/hearth.v1.";

// gRPC's own services.
constexpr absl::string_view kCommonServices[] = {
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1alpha.ServerReflection/",
};

}  // namespace

std::optional<v1::Access> AccessOf(absl::string_view path) {
  for (const absl::string_view service : kCommonServices) {
    if (!absl::StartsWith(path, service)) continue;
    v1::Access access;
    access.set_least_role(v1::VIEWER);
    return access;
  }
  if (!absl::StartsWith(path, kPackage)) return std::nullopt;
  const std::string name = absl::StrReplaceAll(path.substr(1), {{"/", "."}});
  const google::protobuf::MethodDescriptor* method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
          name);
  if (method == nullptr) return std::nullopt;
  const v1::Access& access = method->options().GetExtension(v1::access);
  if (access.least_role() == v1::ROLE_UNSPECIFIED) return std::nullopt;
  return access;
}

const google::protobuf::MethodDescriptor* MethodOf(
    const google::protobuf::Descriptor& request) {
  const google::protobuf::FileDescriptor& file = *request.file();
  for (int i = 0; i < file.service_count(); ++i) {
    for (int j = 0; j < file.service(i)->method_count(); ++j) {
      const auto* method = file.service(i)->method(j);
      if (method->input_type() == &request) return method;
    }
  }
  return nullptr;
}

std::string MethodName(absl::string_view path) {
  absl::ConsumePrefix(&path, kPackage);
  return std::string(path);
}

}  // namespace hearth::server
