#ifndef HEARTH_SERVER_SERVICES_FEED_SERVICE_H_
#define HEARTH_SERVER_SERVICES_FEED_SERVICE_H_

#include <memory>
#include <string>

/// hearth.v1.Feeds. Light: gRPC and its stubs are in the .cc.

namespace grpc {
class Service;
}

namespace hearth::server {

class AccessControl;
class FeedStreams;
class Feeds;
class NodeFiles;
class Transfers;

/// hearth.v1.Feeds. `socket_path` is the path of the FeedSocket; empty = there
/// is none. The other arguments must outlive the gRPC server.
std::unique_ptr<grpc::Service> NewFeedsService(
    AccessControl& access, Feeds& feeds, FeedStreams& streams,
    std::string socket_path, NodeFiles& node_files, Transfers& transfers);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_FEED_SERVICE_H_
