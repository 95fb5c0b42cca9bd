#ifndef HEARTH_SERVER_GRPC_SERVER_H_
#define HEARTH_SERVER_GRPC_SERVER_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "server/access/endpoints.h"

namespace grpc {
class Server;
}

namespace hearth::server {

/// gRPC's server with the daemon's services, its limits for calls and
/// connections, and the addresses that connections come in by. Single-owner.
class GrpcServer {
 public:
  using Services = std::vector<std::unique_ptr<grpc::Service>>;

  /// Listens, and serves health checks and reflection with `services`. Errors
  /// as Acceptor::Open. `access` and `clock` must outlive the result.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      Acceptor::Options addresses, Services services, AccessControl& access,
      const Clock& clock);
  /// Calls Stop.
  ~GrpcServer();

  /// Port of the TCP address; 0 = there is none.
  int port() const { return acceptor_->port(); }

  /// Makes health checks say NOT_SERVING from now on.
  void RefuseWork();

  /// Lets no more connections in; gives calls 3 s to end, and then the last
  /// bytes of connections 1 s. May be called again.
  void Stop();

 private:
  explicit GrpcServer(Services services);

  Services services_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_GRPC_SERVER_H_
