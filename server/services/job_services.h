#ifndef HEARTH_SERVER_SERVICES_JOB_SERVICES_H_
#define HEARTH_SERVER_SERVICES_JOB_SERVICES_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "engine/io/file_system.h"
#include "server/access/access_control.h"
#include "server/jobs/admission.h"
#include "server/jobs/event_hub.h"
#include "server/services/transfers.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/sweeps/sweep_manager.h"

namespace hearth::server {

/// The parts that the service uses; all must outlive the gRPC server.
struct JobsParts {
  AccessControl& access;
  Admission& admission;
  JobStore& store;
  io::FileSystem& files;
  const DataDir& data_dir;
  /// Whose thread writes the watches, which cost none.
  EventHub& hub;
  /// The same for downloads, and with their reads.
  Transfers& transfers;
};

/// hearth.v1.Jobs.
std::unique_ptr<grpc::Service> NewJobsService(const JobsParts& parts);

/// hearth.v1.Sweeps over the parts below, which must outlive the gRPC server.
std::unique_ptr<grpc::Service> NewSweepsService(AccessControl& access,
                                                SweepManager& sweeps,
                                                SweepStore& store,
                                                EventHub& hub);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_JOB_SERVICES_H_
