#ifndef HEARTH_SERVER_SERVICES_SWEEPS_SERVICE_H_
#define HEARTH_SERVER_SERVICES_SWEEPS_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "server/access/access_control.h"
#include "server/jobs/event_hub.h"
#include "server/storage/sweep_store.h"
#include "server/sweeps/sweep_manager.h"

namespace hearth::server {

/// hearth.v1.Sweeps over the parts below, which must outlive the gRPC server.
std::unique_ptr<grpc::Service> NewSweepsService(AccessControl& access,
                                                SweepManager& sweeps,
                                                SweepStore& store,
                                                EventHub& hub);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_SWEEPS_SERVICE_H_
