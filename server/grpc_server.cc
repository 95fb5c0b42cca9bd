#include "server/grpc_server.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "server/log.h"

namespace hearth::server {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;
// Shortest interval of a client's keepalive pings.
constexpr int kPingEveryMs = 1000;
// Calls that a connection may have open. Further calls wait at the client.
constexpr int kMaxStreams = 1024;
// Threads of calls that block; further calls are refused.
constexpr int kMaxThreads = 1024;
// Idle threads that are kept. gRPC keeps two by default: with more concurrent
// calls, it would make a thread for almost each.
constexpr int kMostIdleThreads = 16;
// Time after which a connection without calls ends; clients then make a new
// one.
constexpr int kIdleMs = 30 * 60 * 1000;
// Time of silence after which a client is pinged, and time that it has to
// answer.
constexpr int kAskAfterMs = 60 * 1000;
constexpr int kAnswerWithinMs = 20 * 1000;
// Time for the last bytes of connections once gRPC has stopped.
constexpr absl::Duration kLastBytes = absl::Seconds(1);
// Time for calls to end once the daemon stops.
constexpr std::chrono::seconds kCallPatience{3};

// Writes gRPC's own log lines to the daemon's log.
void LogGrpc(gpr_log_func_args* line) {
  Log(line->severity == GPR_LOG_SEVERITY_ERROR ? LogSeverity::kWarning
                                               : LogSeverity::kDebug,
      absl::StrCat("grpc: ", line->message));
}

// Sets up the library, once per process.
void PrepareGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(LogGrpc);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

// Sets the limits of messages, connections and threads.
void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kAskAfterMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kAnswerWithinMs);
  // Clients may ping every few seconds.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingEveryMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  grpc::ResourceQuota quota("hearthd");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(
      grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, kMostIdleThreads);
}

}  // namespace

GrpcServer::GrpcServer(Services services) : services_(std::move(services)) {}

GrpcServer::~GrpcServer() { Stop(); }

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    Acceptor::Options addresses, Services services, AccessControl& access,
    const Clock& clock) {
  PrepareGrpc();
  std::unique_ptr<GrpcServer> made(new GrpcServer(std::move(services)));
  grpc::ServerBuilder builder;
  SetLimits(builder);
  HEARTH_ASSIGN_OR_RETURN(
      made->acceptor_,
      Acceptor::Open(std::move(addresses), builder, access, clock));
  for (const auto& service : made->services_) {
    builder.RegisterService(service.get());
  }
  made->server_ = builder.BuildAndStart();
  if (made->server_ == nullptr) {
    return absl::InternalError("the gRPC server does not start");
  }
  HEARTH_RETURN_IF_ERROR(made->acceptor_->Start());
  return made;
}

void GrpcServer::RefuseWork() {
  server_->GetHealthCheckService()->SetServingStatus(false);
}

void GrpcServer::Stop() {
  if (server_ == nullptr) return;
  acceptor_->StopListening();
  server_->Shutdown(std::chrono::system_clock::now() + kCallPatience);
  server_->Wait();
  acceptor_->Stop(kLastBytes);
}

}  // namespace hearth::server
