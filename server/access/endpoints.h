#ifndef HEARTH_SERVER_ACCESS_ENDPOINTS_H_
#define HEARTH_SERVER_ACCESS_ENDPOINTS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/support/status.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/descriptor.h"
#include "server/access/access_control.h"
#include "server/access/caller.h"
#include "server/access/tls.h"
#include "server/front/connection_limiter.h"
#include "server/front/guard.h"
#include "server/front/http_guards.h"

namespace hearth::server {

/// The gRPC status for `status`: the same canonical code and message, and the
/// payloads (see field_violations.h) as details of a google.rpc.Status.
/// Messages longer than kMaxMessageLength are cut, since they travel in headers
/// of limited size.
grpc::Status ToGrpcStatus(const absl::Status& status);

inline constexpr size_t kMaxMessageLength = 1024;

/// The user id that the kernel gives for users whom this process's user
/// namespace does not know, `overflow`, if by `uid_map` (/proc/self/uid_map) no
/// known user has it: it then stands for any number of people.
std::optional<uid_t> IdOfUnknownUsers(const std::string& uid_map,
                                      uid_t overflow);

/// A Unix socket. It is removed with this. Single-owner.
class SocketListener {
 public:
  /// Makes the socket, which nobody can connect to yet, for the daemon's user
  /// alone (mode 0600), or, with `group`, for that group, too (0660). A socket
  /// that is there is replaced: call with the lock of the data directory only.
  /// INVALID_ARGUMENT for a path longer than kMaxPath; FAILED_PRECONDITION if
  /// something else is there.
  static absl::StatusOr<std::unique_ptr<SocketListener>> Bind(
      const std::string& path, std::optional<gid_t> group);

  ~SocketListener();
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;

  /// Lets connections in. The descriptor, which does not block, is the
  /// caller's. REQUIRES: called once.
  absl::StatusOr<io::Descriptor> Listen();

  /// The user at the other side of a connection. PERMISSION_DENIED for users
  /// whom the daemon's user namespace does not know: they cannot be told apart.
  absl::StatusOr<uid_t> UserOf(int connection) const;

  bool has_group() const { return has_group_; }

  /// Bytes of a path that the kernel takes.
  static constexpr size_t kMaxPath = 107;

 private:
  SocketListener(std::string path, int socket, bool has_group,
                 std::optional<uid_t> unknown_users)
      : path_(std::move(path)),
        socket_(socket),
        has_group_(has_group),
        unknown_users_(unknown_users) {}

  const std::string path_;
  io::Descriptor socket_;
  const bool has_group_;
  const std::optional<uid_t> unknown_users_;
};

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

/// The addresses of the gRPC services, a front before each: gRPC itself neither
/// listens nor speaks TLS, and sees none but connections that speak HTTP/2.
///
///   1. Open binds them and gives the doors to the builder of gRPC's server;
///   2. Start, once that server runs, lets connections in;
///   3. StopListening, before that server is shut down, lets no more in;
///   4. Stop, once it is, ends those that are left.
///
/// Single-owner.
class Reception {
 public:
  struct Options {
    /// Null = none.
    std::unique_ptr<SocketListener> socket;
    /// As ParseListenAddress returns it; empty = none.
    std::string tcp_address;
    /// That of the TCP address; without it that must be on loopback.
    std::optional<TlsFiles> tls = std::nullopt;
    /// The limits of each address.
    FrontLimits limits = {};
  };

  /// UNAVAILABLE if the TCP address cannot be listened on. `access` must
  /// outlive gRPC's server, `clock` the result.
  static absl::StatusOr<std::unique_ptr<Reception>> Open(
      Options options, grpc::ServerBuilder& builder, AccessControl& access,
      const Clock& clock);

  absl::Status Start();
  void StopListening();
  void Stop(absl::Duration patience);

  /// The port taken; 0 = there is no TCP address.
  int port() const { return port_; }

  /// Users, and client certificates that differ in name or URIs, that can have
  /// connected and not called yet; there is always a door for the daemon's own
  /// user and root.
  static constexpr size_t kMaxUsers = 64;
  static constexpr size_t kMaxCertificates = 256;
  /// Handshakes of TLS, in all and of one party. One was measured to take 3.1
  /// ms of the front's thread with an RSA key of 4,096 bits.
  static constexpr Budget kHandshakes = {.burst = 200, .per_second = 100};
  static constexpr Budget kHandshakesOfParty = {.burst = 100, .per_second = 20};
  /// Descriptors that a connection takes.
  static constexpr size_t kDescriptorsPerConnection = 3;

 private:
  Reception(Options options, const Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        user_guards_(clock),
        tcp_guards_(clock) {}

  absl::Status Bind();
  absl::Status OpenDoors(grpc::ServerBuilder& builder, AccessControl& access);
  absl::StatusOr<Visitor> ReceiveUser(int connection);
  absl::StatusOr<Visitor> ReceiveAddress(int connection);

  Options options_;
  const Clock& clock_;
  int port_ = 0;
  std::optional<io::Descriptor> tcp_;
  std::unique_ptr<TlsServer> tls_;
  std::unique_ptr<Doors> user_doors_;
  std::unique_ptr<Doors> tcp_doors_;
  Http2Guards user_guards_;
  Http2Guards tcp_guards_;
  std::unique_ptr<Front> user_front_;
  std::unique_ptr<Front> tcp_front_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_ENDPOINTS_H_
