#ifndef HEARTH_SERVER_SERVICES_RESOURCE_SERVICES_H_
#define HEARTH_SERVER_SERVICES_RESOURCE_SERVICES_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/plan/plan_store.h"
#include "server/access/access_control.h"
#include "server/jobs/admission.h"
#include "server/services/transfers.h"
#include "server/storage/data_dir.h"
#include "server/storage/dataset_catalog.h"
#include "server/storage/job_store.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

/// The parts that the service uses; all must outlive the gRPC server.
struct DatasetsParts {
  AccessControl& access;
  Admission& admission;
  const DatasetCatalog& datasets;
  plan::PlanStore& plans;
  UploadStaging& uploads;
  /// Whose thread writes what uploads bring.
  Transfers& transfers;
};

/// hearth.v1.Datasets.
std::unique_ptr<grpc::Service> NewDatasetsService(const DatasetsParts& parts);

/// hearth.v1.Plans over the parts below, which must outlive the gRPC server.
std::unique_ptr<grpc::Service> NewPlansService(AccessControl& access,
                                               Admission& admission,
                                               const plan::PlanStores& plans,
                                               const DatasetCatalog& datasets);

/// Facts that do not change while the daemon runs.
struct DaemonFacts {
  /// Address of the metrics; empty = none.
  std::string metrics_address;
  int max_running_jobs = 1;
  int max_short_jobs = 2;
  absl::Time start_time;
  /// GPUs, such as "cuda:0 (NVIDIA H100)".
  std::vector<std::string> gpus = {};
};

/// The parts that the service looks at; all must outlive the gRPC server.
struct AdminParts {
  io::FileSystem& files;
  const Clock& clock;
  /// Those of backups (see io::OpenRooted).
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
};

/// hearth.v1.Admin.
std::unique_ptr<grpc::Service> NewAdminService(DaemonFacts facts,
                                               AdminParts parts);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_RESOURCE_SERVICES_H_
