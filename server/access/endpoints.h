#ifndef HEARTH_SERVER_ACCESS_ENDPOINTS_H_
#define HEARTH_SERVER_ACCESS_ENDPOINTS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/support/status.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
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
#include "server/access/tls.h"
#include "server/front/connection_limiter.h"
#include "server/front/guard.h"
#include "server/front/http_guards.h"
#include "server/front/sockets.h"

/// Everything about a connection that needs gRPC: statuses, the Unix socket,
/// the endpoints that tell callers apart, and the acceptor of all addresses.

namespace hearth::server {

/// gRPC status for `status`: the same canonical code and message; payloads
/// (FieldViolations) become details of a google.rpc.Status. Messages longer
/// than kMaxMessageLength are cut, since they travel in headers of limited
/// size.
grpc::Status ToGrpcStatus(const absl::Status& status);

inline constexpr size_t kMaxMessageLength = 1024;

/// `overflow`, the user id that the kernel gives for users unknown in this
/// process's user namespace, if by `uid_map` (/proc/self/uid_map) no known user
/// has it: then it stands for any number of people. Otherwise nullopt.
std::optional<uid_t> IdOfUnknownUsers(const std::string& uid_map,
                                      uid_t overflow);

/// Unix socket that is removed on destruction. Single-owner.
class SocketListener {
 public:
  /// Makes the socket, which nobody can connect to yet, for the daemon's user
  /// alone (mode 0600), or for `group`, too (0660). Replaces an existing
  /// socket: call only with the lock of the data directory. INVALID_ARGUMENT
  /// for a path longer than kMaxPath; FAILED_PRECONDITION if another kind of
  /// file is there. `type` is SOCK_STREAM, or SOCK_SEQPACKET for packets.
  static absl::StatusOr<std::unique_ptr<SocketListener>> Bind(
      const std::string& path, std::optional<gid_t> group,
      int type = SOCK_STREAM);

  ~SocketListener();
  SocketListener(const SocketListener&) = delete;
  SocketListener& operator=(const SocketListener&) = delete;

  /// Lets connections in. The caller owns the descriptor, which does not block.
  /// REQUIRES: called once.
  absl::StatusOr<io::Descriptor> Listen();

  /// User at the other side of a connection. PERMISSION_DENIED for users
  /// unknown in the daemon's user namespace: they cannot be told apart.
  absl::StatusOr<uid_t> UserOf(int connection) const;

  bool has_group() const { return has_group_; }
  const std::string& path() const { return path_; }

  /// Greatest length of a path that the kernel takes, in bytes.
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

/// Server endpoint of gRPC for one caller at a time: asks `access` about each
/// call before its request is read. Calls that it lets in carry what
/// CredentialsOf needs. Thread-safe.
///
/// The first call of a connection marks the connection with the endpoint's
/// caller, for good: later calls are that caller's, whosever the endpoint is by
/// then. So the endpoint can serve another caller once each connection that
/// came in by it is marked, or has ended without a call: IsFree. It relies on
/// nothing else, such as gRPC noticing the end of a connection: calls may come
/// until long after. A connection with a call that gRPC never reports keeps the
/// endpoint its caller's.
class Endpoint final : public grpc::AuthMetadataProcessor {
 public:
  /// `access` must outlive the endpoint.
  explicit Endpoint(AccessControl& access) : access_(access) {}

  /// Callers of connections to come have these credentials, but for the
  /// authorization of each call. REQUIRES: IsFree().
  void SetCaller(Credentials caller) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Adds a connection.
  void Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  /// Removes a connection that has ended without sending a call.
  void RemoveSilent() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether no call yet to come depends on the endpoint's caller.
  bool IsFree() const ABSL_LOCKS_EXCLUDED(mutex_);

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  void Mark(grpc::AuthContext& context) ABSL_LOCKS_EXCLUDED(mutex_);

  AccessControl& access_;
  // Also guards the marks of connections.
  mutable absl::Mutex mutex_;
  Credentials caller_ ABSL_GUARDED_BY(mutex_);
  // Connections that came in, are not marked, and may still have a call.
  int unmarked_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Endpoints of one address: gRPC can tell connections apart by their endpoints
/// alone. A caller keeps its endpoint until another caller needs it; among free
/// endpoints, the one unused longest is taken. Single-owner, once gRPC's server
/// runs.
class Endpoints {
 public:
  /// Adds `count` endpoints to `builder`. `access` must outlive gRPC's server.
  Endpoints(grpc::ServerBuilder& builder, AccessControl& access, size_t count);

  /// Keeps an endpoint for this caller, however many others come.
  absl::Status Reserve(const Credentials& caller);

  /// New connection to gRPC's server, by the caller's endpoint. UNAVAILABLE if
  /// all endpoints belong to other callers and none is free; RESOURCE_EXHAUSTED
  /// if there are no descriptors.
  absl::StatusOr<Bridge> Enter(const Credentials& caller);

 private:
  struct Slot {
    std::shared_ptr<Endpoint> endpoint;
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
    // Identifies its caller; empty = it was never used.
    std::vector<std::string> key;
    bool is_reserved = false;
    // Number of the last connection that came in by it.
    uint64_t used = 0;
  };

  // The caller's endpoint, taken from another caller if need be.
  absl::StatusOr<Slot*> Find(const Credentials& caller);

  std::vector<Slot> slots_;
  uint64_t connections_ = 0;
};

/// Credentials of a call that an Endpoint has let in.
Credentials CredentialsOf(const grpc::ServerContextBase& context);

/// Trace that a call's "traceparent" entry names; empty = none.
std::string TraceIdOf(const grpc::ServerContextBase& context);

/// Addresses of the gRPC services, each behind a ConnectionLimiter: gRPC itself
/// neither listens nor speaks TLS, and sees only connections that speak HTTP/2.
///
///   1. Open binds the addresses and adds endpoints to the builder of gRPC's
///      server;
///   2. Start, once that server runs, lets connections in;
///   3. StopListening, before that server is shut down, lets no more in;
///   4. Stop, once it is shut down, ends the connections that are left.
///
/// Single-owner.
class Acceptor {
 public:
  struct Options {
    /// Null = none.
    std::unique_ptr<SocketListener> socket;
    /// As ParseListenAddress returns it; empty = none.
    std::string tcp_address;
    /// TLS files of the TCP address; nullopt = no TLS, and the address must be
    /// on loopback.
    std::optional<TlsFiles> tls = std::nullopt;
    /// The address of the members of a cluster.
    struct Peers {
      /// As tcp_address.
      std::string address;
      TlsFiles tls;
      /// OK if a certificate with this name may come in.
      std::function<absl::Status(const std::string& member)> check_member;
      /// Takes a connection that is a link (PeerGuard): non-blocking, with all
      /// its bytes. Called on a limiter's thread, which must not be blocked.
      std::function<void(const std::string& member, io::Descriptor socket)>
          take_link;
    };
    std::optional<Peers> peers = std::nullopt;
    /// Limits of each address.
    LimiterOptions limits = {};
  };

  /// UNAVAILABLE if the TCP address cannot be listened on. `access` must
  /// outlive gRPC's server, `clock` the result.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Open(
      Options options, grpc::ServerBuilder& builder, AccessControl& access,
      const Clock& clock);

  absl::Status Start();
  void StopListening();
  void Stop(absl::Duration patience);

  /// Port of the TCP address; 0 = there is none.
  int port() const { return port_; }
  /// Port of the members' address; 0 = there is none.
  int peer_port() const { return peer_port_; }

  /// Users, and client certificates that differ in name or URIs, that can be
  /// connected without a call at a time; there is always an endpoint for the
  /// daemon's own user and root.
  static constexpr size_t kMaxUsers = 64;
  static constexpr size_t kMaxCertificates = 256;
  /// TLS handshakes, in all and of one client address. One takes 3.1 ms of the
  /// limiter's thread with an RSA key of 4,096 bits (measured).
  static constexpr RateLimit kHandshakes = {.burst = 200, .per_second = 100};
  static constexpr RateLimit kHandshakesPerAddress = {.burst = 100,
                                                      .per_second = 20};
  /// Descriptors that a connection takes.
  static constexpr size_t kDescriptorsPerConnection = 3;

 private:
  Acceptor(Options options, const Clock& clock)
      : options_(std::move(options)),
        clock_(clock),
        user_guards_(clock),
        tcp_guards_(clock),
        peer_guards_(clock) {}

  absl::Status Bind();
  absl::Status OpenEndpoints(grpc::ServerBuilder& builder,
                             AccessControl& access);
  absl::StatusOr<Visitor> ReceiveUser(int connection);
  absl::StatusOr<Visitor> ReceiveAddress(int connection);
  absl::StatusOr<Visitor> ReceivePeer(int connection);

  Options options_;
  const Clock& clock_;
  int port_ = 0;
  int peer_port_ = 0;
  std::optional<io::Descriptor> tcp_;
  std::optional<io::Descriptor> peers_;
  std::unique_ptr<TlsServer> tls_;
  std::unique_ptr<TlsServer> peer_tls_;
  std::unique_ptr<Endpoints> user_endpoints_;
  std::unique_ptr<Endpoints> tcp_endpoints_;
  std::unique_ptr<Endpoints> peer_endpoints_;
  Http2Guards user_guards_;
  Http2Guards tcp_guards_;
  Http2Guards peer_guards_;
  std::unique_ptr<ConnectionLimiter> user_limiter_;
  std::unique_ptr<ConnectionLimiter> tcp_limiter_;
  std::unique_ptr<ConnectionLimiter> peer_limiter_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_ENDPOINTS_H_
