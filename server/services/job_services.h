#ifndef HEARTH_SERVER_SERVICES_JOB_SERVICES_H_
#define HEARTH_SERVER_SERVICES_JOB_SERVICES_H_

#include <memory>

/// hearth.v1.Jobs and hearth.v1.Sweeps. Light: gRPC and its stubs are in the
/// .cc.

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
class EventHub;
class Feeds;
class JobStore;
class SweepManager;
class SweepStore;
class Transfers;

/// Objects that hearth.v1.Jobs uses; all must outlive the gRPC server.
struct JobsDependencies {
  AccessControl& access;
  Admission& admission;
  JobStore& store;
  io::FileSystem& files;
  const DataDir& data_dir;
  /// Hub whose thread writes all watches.
  EventHub& hub;
  /// Hub and threads of downloads.
  Transfers& transfers;
  const Feeds& feeds;
  /// Null = there is none.
  const Cluster* cluster = nullptr;
};

/// hearth.v1.Jobs.
std::unique_ptr<grpc::Service> NewJobsService(const JobsDependencies& deps);

/// hearth.v1.Sweeps. All arguments must outlive the gRPC server.
std::unique_ptr<grpc::Service> NewSweepsService(AccessControl& access,
                                                SweepManager& sweeps,
                                                SweepStore& store,
                                                EventHub& hub);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_JOB_SERVICES_H_
