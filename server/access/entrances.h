#ifndef HEARTH_SERVER_ACCESS_ENTRANCES_H_
#define HEARTH_SERVER_ACCESS_ENTRANCES_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/io/descriptor.h"
#include "server/access/access_control.h"
#include "server/access/caller.h"

namespace hearth::server {

/// A door of gRPC's: asks `access` about each call that comes in by it, before
/// its request is read. All who come in by one are the same party; what it lets
/// in carries what CredentialsOf needs. Thread-safe.
class Door final : public grpc::AuthMetadataProcessor {
 public:
  /// `access` must outlive the door.
  explicit Door(AccessControl& access) : access_(access) {}

  /// From now on whoever comes in has these credentials, but for the call's
  /// own. REQUIRES: called once, before the first connection.
  void SetParty(Credentials party) { party_ = std::move(party); }

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  void Mark(grpc::AuthContext& context);

  AccessControl& access_;
  Credentials party_;
  // Guards what connections know of their party, which is set once.
  absl::Mutex mutex_;
};

/// The doors of one address: one for each party that has come in since the
/// start, since gRPC can tell connections apart by their doors alone.
/// Single-owner, once gRPC's server runs.
class Doors {
 public:
  /// Gives `builder` so many doors. `access` must outlive gRPC's server.
  Doors(grpc::ServerBuilder& builder, AccessControl& access, size_t count);

  /// Keeps a door for this party, however many others come.
  absl::Status Reserve(const Credentials& party) {
    return Find(party).status();
  }

  /// Our end of a new connection to gRPC's server, by the door of this party.
  /// RESOURCE_EXHAUSTED if all doors are those of others, or if there are no
  /// descriptors.
  absl::StatusOr<io::Descriptor> Enter(const Credentials& party);

 private:
  struct OneDoor {
    std::shared_ptr<Door> door;
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  };

  // The index of its door.
  absl::StatusOr<size_t> Find(const Credentials& party);

  std::vector<OneDoor> doors_;
  // By what tells a party.
  std::map<std::vector<std::string>, size_t> parties_;
};

/// What a call that a Door has let in tells about its caller.
Credentials CredentialsOf(const grpc::ServerContextBase& context);

/// The trace that a call's "traceparent" entry names; empty = none.
std::string TraceIdOf(const grpc::ServerContextBase& context);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_ENTRANCES_H_
