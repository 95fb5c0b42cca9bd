#include "server/services/feed_service.h"

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status.h"
#include "hearth/v1/feeds.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/access/endpoints.h"
#include "server/feeds/feeds.h"
#include "server/services/call_guard.h"
#include "server/services/feed_stream.h"
#include "server/services/nodes_stream.h"
#include "server/services/transfers.h"

namespace hearth::server {
namespace {

class FeedsService final
    : public v1::Feeds::WithCallbackMethod_Stream<
          v1::Feeds::WithCallbackMethod_PutNodes<v1::Feeds::Service>> {
 public:
  FeedsService(AccessControl& access, Feeds& feeds, FeedStreams& streams,
               std::string socket_path, NodeFiles& node_files,
               Transfers& transfers)
      : access_(access),
        guard_(access),
        feeds_(feeds),
        streams_(streams),
        socket_path_(std::move(socket_path)),
        node_files_(node_files),
        transfers_(transfers) {}

  grpc::Status AttachFeed(grpc::ServerContext* context,
                          const v1::AttachFeedRequest* request,
                          v1::AttachFeedResponse* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller& caller) -> absl::Status {
                        Feeds::Holder holder = caller.name;
                        if (!request->stream()) {
                          HEARTH_ASSIGN_OR_RETURN(
                              holder, UserOf(CredentialsOf(*context)));
                          response->set_path(socket_path_);
                        }
                        HEARTH_ASSIGN_OR_RETURN(
                            *response->mutable_ticket(),
                            feeds_.NewTicket(request->id(), request->rank(),
                                             std::move(holder)));
                        return absl::OkStatus();
                      });
  }

  grpc::ServerBidiReactor<v1::FeedUp, v1::FeedDown>* Stream(
      grpc::CallbackServerContext* context) override {
    return StartFeedStream(streams_, guard_, access_, feeds_, *context);
  }

  grpc::ServerReadReactor<v1::PutNodesRequest>* PutNodes(
      grpc::CallbackServerContext* context,
      v1::PutNodesResponse* response) override {
    context->AddInitialMetadata("hearth-watch", "open");
    return StartNodesStream(transfers_, guard_, node_files_, *context,
                            response);
  }

 private:
  // The user that may come to the socket.
  absl::StatusOr<uid_t> UserOf(const Credentials& credentials) const {
    if (socket_path_.empty()) {
      return absl::FailedPreconditionError(
          "this daemon has no Unix socket, by which batches go: the path of "
          "its data directory is too long");
    }
    if (!credentials.uid.has_value()) {
      return absl::FailedPreconditionError(
          "batches are in memory that is shared with the client: it must "
          "connect by the daemon's Unix socket, on its machine, or ask for a "
          "stream");
    }
    return *credentials.uid;
  }

  AccessControl& access_;
  const CallGuard guard_;
  Feeds& feeds_;
  FeedStreams& streams_;
  const std::string socket_path_;
  NodeFiles& node_files_;
  Transfers& transfers_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewFeedsService(
    AccessControl& access, Feeds& feeds, FeedStreams& streams,
    std::string socket_path, NodeFiles& node_files, Transfers& transfers) {
  return std::make_unique<FeedsService>(
      access, feeds, streams, std::move(socket_path), node_files, transfers);
}

}  // namespace hearth::server
