#ifndef HEARTH_SERVER_SERVICES_CALL_GUARD_H_
#define HEARTH_SERVER_SERVICES_CALL_GUARD_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/access/access_control.h"
#include "server/access/caller.h"

namespace hearth::server {

/// Work that all handlers of unary calls do around their own. The role of the
/// caller was checked before, where the call came in (see access/endpoints.h).
/// Thread-safe.
class CallGuard {
 public:
  /// `access` must outlive the guard.
  explicit CallGuard(AccessControl& access) : access_(access) {}

  /// Does `work`, which fills `response`, if the request makes sense and its
  /// caller may change what it names. A call that changes something is written
  /// to the audit log.
  grpc::Status Run(
      const grpc::ServerContextBase& context,
      const google::protobuf::Message& request,
      google::protobuf::Message* response,
      absl::FunctionRef<absl::Status(const Caller& caller)> work) const;

  /// For watches, what is asked before each event: whether the request makes
  /// sense, and whether its caller is somebody still. UNAUTHENTICATED once a
  /// token was revoked or has expired. No I/O.
  std::function<absl::Status()> CheckOf(
      const grpc::ServerContextBase& context,
      const google::protobuf::Message& request) const;

 private:
  AccessControl& access_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_CALL_GUARD_H_
