#ifndef HEARTH_SERVER_SERVICES_NODES_STREAM_H_
#define HEARTH_SERVER_SERVICES_NODES_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "hearth/v1/feeds.pb.h"
#include "server/jobs/node_files.h"
#include "server/services/call_guard.h"
#include "server/services/transfers.h"

namespace hearth::server {

/// Starts the stream of a feed's nodes from a client, which owns itself.
/// `transfers`, whose thread writes them, `guard` and `node_files` must outlive
/// the gRPC server.
grpc::ServerReadReactor<v1::PutNodesRequest>* StartNodesStream(
    Transfers& transfers, const CallGuard& guard, NodeFiles& node_files,
    grpc::CallbackServerContext& context, v1::PutNodesResponse* response);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_NODES_STREAM_H_
