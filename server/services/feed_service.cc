#include "server/services/feed_service.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "hearth/v1/feeds.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/access/endpoints.h"
#include "server/feeds/feeds.h"
#include "server/services/call_guard.h"
#include "server/services/nodes_stream.h"
#include "server/services/transfers.h"

namespace hearth::server {
namespace {

class FeedsService final
    : public v1::Feeds::WithCallbackMethod_PutNodes<v1::Feeds::Service> {
 public:
  FeedsService(AccessControl& access, Feeds& feeds, std::string socket_path,
               NodeFiles& node_files, Transfers& transfers)
      : guard_(access),
        feeds_(feeds),
        socket_path_(std::move(socket_path)),
        node_files_(node_files),
        transfers_(transfers) {}

  grpc::Status AttachFeed(grpc::ServerContext* context,
                          const v1::AttachFeedRequest* request,
                          v1::AttachFeedResponse* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          const Credentials credentials = CredentialsOf(*context);
          if (socket_path_.empty()) {
            return absl::FailedPreconditionError(
                "this daemon has no Unix socket, by which batches go: the path "
                "of its data directory is too long");
          }
          if (!credentials.uid.has_value()) {
            return absl::FailedPreconditionError(
                "batches are in memory that is shared with the client: it must "
                "connect by the daemon's Unix socket, on its machine");
          }
          HEARTH_ASSIGN_OR_RETURN(
              const std::string ticket,
              feeds_.NewTicket(request->id(), request->rank(),
                               *credentials.uid));
          response->set_path(socket_path_);
          response->set_ticket(ticket);
          return absl::OkStatus();
        });
  }

  grpc::ServerReadReactor<v1::PutNodesRequest>* PutNodes(
      grpc::CallbackServerContext* context,
      v1::PutNodesResponse* response) override {
    context->AddInitialMetadata("hearth-watch", "open");
    return StartNodesStream(transfers_, guard_, node_files_, *context,
                            response);
  }

 private:
  const CallGuard guard_;
  Feeds& feeds_;
  const std::string socket_path_;
  NodeFiles& node_files_;
  Transfers& transfers_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewFeedsService(AccessControl& access,
                                               Feeds& feeds,
                                               std::string socket_path,
                                               NodeFiles& node_files,
                                               Transfers& transfers) {
  return std::make_unique<FeedsService>(access, feeds, std::move(socket_path),
                                        node_files, transfers);
}

}  // namespace hearth::server
