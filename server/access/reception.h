#ifndef HEARTH_SERVER_ACCESS_RECEPTION_H_
#define HEARTH_SERVER_ACCESS_RECEPTION_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/descriptor.h"
#include "server/access/access_control.h"
#include "server/access/entrances.h"
#include "server/access/socket_listener.h"
#include "server/access/tls.h"
#include "server/front/budget.h"
#include "server/front/front.h"
#include "server/front/http2_guard.h"

namespace hearth::server {

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

#endif  // HEARTH_SERVER_ACCESS_RECEPTION_H_
