#ifndef HEARTH_SERVER_ACCESS_ENTRANCES_H_
#define HEARTH_SERVER_ACCESS_ENTRANCES_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/access/access_control.h"
#include "server/access/caller.h"
#include "server/front/front.h"

namespace hearth::server {

/// A door of gRPC's: asks `access` about each call that comes in by it, before
/// its request is read. All who come in by one at a time are the same party;
/// what it lets in carries what CredentialsOf needs. Thread-safe.
///
/// The first call of a connection marks the connection with the door's party,
/// for good: its other calls are that party's, whosoever the door is by then.
/// So the door can be another party's once each connection that came in by it
/// is marked, or has ended and cannot have a call: IsFree. Nothing else is
/// relied on, such as when gRPC notices that a connection has ended: calls may
/// come until long after. A connection with a call that gRPC never told of
/// keeps the door its party's.
class Door final : public grpc::AuthMetadataProcessor {
 public:
  /// `access` must outlive the door.
  explicit Door(AccessControl& access) : access_(access) {}

  /// From now on whoever comes in has these credentials, but for the call's
  /// own. REQUIRES: IsFree().
  void SetParty(Credentials party) ABSL_LOCKS_EXCLUDED(mutex_);

  /// A connection comes in.
  void Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  /// One that had come in has ended; of what it sent nothing was a call.
  void LeaveSilently() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether no call that is yet to come depends on the door's party.
  bool IsFree() const ABSL_LOCKS_EXCLUDED(mutex_);

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  void Mark(grpc::AuthContext& context) ABSL_LOCKS_EXCLUDED(mutex_);

  AccessControl& access_;
  // Guards what connections know of their party, too.
  mutable absl::Mutex mutex_;
  Credentials party_ ABSL_GUARDED_BY(mutex_);
  // Connections that came in, are not marked, and may have a call yet.
  int unmarked_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// The doors of one address, since gRPC can tell connections apart by their
/// doors alone. A party keeps its door until another one needs it, and it is
/// free, and unused longer than other free ones. Single-owner, once gRPC's
/// server runs.
class Doors {
 public:
  /// Gives `builder` so many doors. `access` must outlive gRPC's server.
  Doors(grpc::ServerBuilder& builder, AccessControl& access, size_t count);

  /// Keeps a door for this party, however many others come.
  absl::Status Reserve(const Credentials& party);

  /// Our end of a new connection to gRPC's server, by the door of this party.
  /// UNAVAILABLE if all doors are those of others, and not free;
  /// RESOURCE_EXHAUSTED if there are no descriptors.
  absl::StatusOr<Passage> Enter(const Credentials& party);

 private:
  struct OneDoor {
    std::shared_ptr<Door> door;
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
    // Key of its party; empty = it was never used.
    std::vector<std::string> key;
    bool is_reserved = false;
    // The number of the connection that came in by it last.
    uint64_t used = 0;
  };

  // Its door, which may have been another party's.
  absl::StatusOr<OneDoor*> Find(const Credentials& party);

  std::vector<OneDoor> doors_;
  uint64_t connections_ = 0;
};

/// Credentials of the caller of a call that a Door has let in.
Credentials CredentialsOf(const grpc::ServerContextBase& context);

/// The trace that a call's "traceparent" entry names; empty = none.
std::string TraceIdOf(const grpc::ServerContextBase& context);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_ENTRANCES_H_
