#ifndef HEARTH_SERVER_SERVICES_RESOURCE_SERVICES_H_
#define HEARTH_SERVER_SERVICES_RESOURCE_SERVICES_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/services/peers_service.h"

/// hearth.v1.Datasets, Plans and Admin. Light: gRPC and its stubs are in the
/// .cc.

namespace grpc {
class Service;
}
namespace hearth::io {
class FileSystem;
class ReadQueues;
}  // namespace hearth::io
namespace hearth::job {
class MemoryLedger;
}
namespace hearth::plan {
class PlanStore;
class PlanStores;
}  // namespace hearth::plan

namespace hearth::server {

class AccessControl;
class Admission;
class DataDir;
class DataDisks;
class DatasetCatalog;
class Feeds;
class JobStore;
class Transfers;
class UploadStaging;

/// Objects that hearth.v1.Datasets uses; all must outlive the gRPC server.
struct DatasetsDependencies {
  AccessControl& access;
  Admission& admission;
  const DatasetCatalog& datasets;
  plan::PlanStore& plans;
  UploadStaging& uploads;
  /// Hub and threads of uploads.
  Transfers& transfers;
};

/// hearth.v1.Datasets.
std::unique_ptr<grpc::Service> NewDatasetsService(
    const DatasetsDependencies& deps);

/// hearth.v1.Plans. All arguments must outlive the gRPC server.
std::unique_ptr<grpc::Service> NewPlansService(AccessControl& access,
                                               Admission& admission,
                                               const plan::PlanStores& plans,
                                               const DatasetCatalog& datasets);

/// Facts that do not change while the daemon runs.
struct DaemonFacts {
  /// Address of the metrics port; empty = none.
  std::string metrics_address;
  int max_running_jobs = 1;
  int max_short_jobs = 2;
  absl::Time start_time;
  /// Names of GPUs, such as "cuda:0 (NVIDIA H100)".
  std::vector<std::string> gpus = {};
};

/// Objects that hearth.v1.Admin uses; all must outlive the gRPC server.
struct AdminDependencies {
  io::FileSystem& files;
  const Clock& clock;
  /// File system that backups are written through (see io::OpenRooted).
  io::FileSystem& backup_files;
  AccessControl& access;
  const io::ReadQueues& read_queues;
  const job::MemoryLedger& memory;
  plan::PlanStore& plans;
  const DataDisks& data_disks;
  Admission& admission;
  const DatasetCatalog& datasets;
  const DataDir& data_dir;
  JobStore& store;
  Feeds& feeds;
  /// Absent without a cluster.
  std::optional<PeersDependencies> peers = {};
};

/// hearth.v1.Admin.
std::unique_ptr<grpc::Service> NewAdminService(DaemonFacts facts,
                                               AdminDependencies deps);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_RESOURCE_SERVICES_H_
