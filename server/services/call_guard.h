#ifndef HEARTH_SERVER_SERVICES_CALL_GUARD_H_
#define HEARTH_SERVER_SERVICES_CALL_GUARD_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/access/access_control.h"

namespace hearth::server {

/// Common work of all handlers of unary calls. The role of the caller was
/// checked when the call came in (Endpoint::Process). Thread-safe.
class CallGuard {
 public:
  /// `access` must outlive the guard.
  explicit CallGuard(AccessControl& access) : access_(access) {}

  /// Calls `work`, which fills `response`, if the request is valid and its
  /// caller may change the thing that it names. Calls that change something are
  /// written to the audit log.
  grpc::Status Run(
      const grpc::ServerContextBase& context,
      const google::protobuf::Message& request,
      google::protobuf::Message* response,
      absl::FunctionRef<absl::Status(const Caller& caller)> work) const;

  /// Check for watches, called before each event: whether the request is valid,
  /// and its caller is still known. UNAUTHENTICATED once a token was revoked or
  /// has expired. No I/O.
  std::function<absl::Status()> CheckOf(
      const grpc::ServerContextBase& context,
      const google::protobuf::Message& request) const;

 private:
  AccessControl& access_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_CALL_GUARD_H_
