#ifndef HEARTH_SERVER_SERVICES_PEERS_SERVICE_H_
#define HEARTH_SERVER_SERVICES_PEERS_SERVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "hearth/v1/admin.pb.h"

/// hearth.v1.Peers, and what a daemon tells of itself there. Light: gRPC and
/// its stubs are in the .cc.

namespace grpc {
class Service;
}
namespace hearth::io {
class FileSystem;
}

namespace hearth::server {

class AccessControl;
class Admission;
class Cluster;
class DataDir;
class DatasetCatalog;
class JobStore;

/// Objects that hearth.v1.Peers uses; all must outlive the gRPC server.
struct PeersDependencies {
  AccessControl& access;
  Admission& admission;
  io::FileSystem& files;
  const DataDir& data_dir;
  const DatasetCatalog& datasets;
  JobStore& store;
  const Clock& clock;
  Cluster& cluster;
  int max_running_jobs = 1;
};

/// hearth.v1.Peers.
std::unique_ptr<grpc::Service> NewPeersService(const PeersDependencies& deps);

/// The state of this daemon as a member of its cluster.
absl::StatusOr<v1::MemberState> OwnMemberState(const PeersDependencies& deps);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_PEERS_SERVICE_H_
