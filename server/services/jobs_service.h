#ifndef HEARTH_SERVER_SERVICES_JOBS_SERVICE_H_
#define HEARTH_SERVER_SERVICES_JOBS_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "server/access/access_control.h"
#include "server/jobs/admission.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/scheduler.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// hearth.v1.Jobs over the parts below, which must outlive the gRPC server.
/// Watches cost no thread: they are written by the hub's.
std::unique_ptr<grpc::Service> NewJobsService(AccessControl& access,
                                              Admission& admission,
                                              JobStore& store,
                                              Scheduler& scheduler,
                                              EventHub& hub);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_JOBS_SERVICE_H_
