#include "server/services/call_guard.h"

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "hearth/v1/access.pb.h"
#include "server/access/access_control.h"
#include "server/access/endpoints.h"
#include "server/log.h"
#include "server/mapping/request_checks.h"
#include "server/storage/token_store.h"

namespace hearth::server {
namespace {

constexpr size_t kMaxTargetBytes = 256;

// Text of the field `name`; empty if the message has no such field.
std::string TextOf(const google::protobuf::Message& message,
                   const std::string& name) {
  const auto* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated() ||
      field->type() != google::protobuf::FieldDescriptor::TYPE_STRING) {
    return "";
  }
  return message.GetReflection()->GetString(message, field);
}

// Target of a call, for the audit log: the name or id in the request, else the
// id of the thing that was made.
std::string TargetOf(const google::protobuf::Message& request,
                     const google::protobuf::Message& response) {
  for (const char* name : {"id", "job_id", "name", "destination"}) {
    const std::string target = TextOf(request, name);
    if (!target.empty()) return target.substr(0, kMaxTargetBytes);
  }
  return TextOf(response, "id");
}

}  // namespace

grpc::Status CallGuard::Run(
    const grpc::ServerContextBase& context,
    const google::protobuf::Message& request,
    google::protobuf::Message* response,
    absl::FunctionRef<absl::Status(const Caller& caller)> work) const {
  const auto* method = MethodOf(*request.GetDescriptor());
  absl::StatusOr<Caller> caller = access_.Identify(CredentialsOf(context));
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  caller->trace_id = TraceIdOf(context);
  const v1::Access access = method == nullptr
                                ? v1::Access()
                                : method->options().GetExtension(v1::access);
  const absl::Status status = [&]() -> absl::Status {
    HEARTH_RETURN_IF_ERROR(CheckRequest(request));
    if (access.changes() != v1::Access::OWNED_UNSPECIFIED) {
      const absl::Status owned =
          access_.CheckOwner(*caller, access.changes(), TextOf(request, "id"));
      const bool may_repeat = absl::IsNotFound(owned) &&
                              absl::StartsWith(method->name(), "Delete") &&
                              !TextOf(request, "request_id").empty();
      if (!may_repeat) HEARTH_RETURN_IF_ERROR(owned);
    }
    return work(*caller);
  }();
  if (access.least_role() != v1::VIEWER) {
    access_.audit().Write(
        *caller,
        method == nullptr
            ? request.GetTypeName()
            : absl::StrCat(method->service()->name(), "/", method->name()),
        TargetOf(request, *response), status.code());
  }
  const absl::Status saved = access_.tokens().SaveUses();
  if (!saved.ok()) {
    LogWarning("last uses of tokens: ", saved.message());
  }
  return ToGrpcStatus(status);
}

std::function<absl::Status()> CallGuard::CheckOf(
    const grpc::ServerContextBase& context,
    const google::protobuf::Message& request) const {
  return [&access = access_, checked = CheckRequest(request),
          credentials = CredentialsOf(context)]() -> absl::Status {
    HEARTH_RETURN_IF_ERROR(checked);
    return access.Identify(credentials).status();
  };
}

}  // namespace hearth::server
