#ifndef HEARTH_SERVER_ACCESS_ENTRANCES_H_
#define HEARTH_SERVER_ACCESS_ENTRANCES_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/access_control.h"
#include "server/access/caller.h"

namespace hearth::server {

/// A door of gRPC's: asks `access` about each call that comes in by it, before
/// its request is read. Every address of the daemon has one
/// (ServerCredentials::SetAuthMetadataProcessor); what it lets in carries what
/// CredentialsOf needs. Thread-safe.
class Door final : public grpc::AuthMetadataProcessor {
 public:
  /// `access` must outlive the door.
  Door(AccessControl& access, Entrance entrance)
      : access_(access), entrance_(entrance) {}

  /// From now on whoever comes in by the socket's door is this user.
  /// REQUIRES: called before the user's first connection is handed over.
  void SetUser(uid_t uid) { uid_ = uid; }

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  AccessControl& access_;
  const Entrance entrance_;
  std::atomic<int64_t> uid_ = -1;
  // Guards what connections know of their entrance, which is set once.
  absl::Mutex mutex_;
};

/// What a call that a Door has let in tells about its caller.
Credentials CredentialsOf(const grpc::ServerContextBase& context);

/// The trace that a call's "traceparent" entry names; empty = none.
std::string TraceIdOf(const grpc::ServerContextBase& context);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_ENTRANCES_H_
