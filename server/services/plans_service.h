#ifndef HEARTH_SERVER_SERVICES_PLANS_SERVICE_H_
#define HEARTH_SERVER_SERVICES_PLANS_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "engine/plan/plan_stores.h"
#include "server/access/access_control.h"
#include "server/jobs/admission.h"
#include "server/storage/dataset_catalog.h"

namespace hearth::server {

/// hearth.v1.Plans over the parts below, which must outlive the gRPC server.
std::unique_ptr<grpc::Service> NewPlansService(AccessControl& access,
                                               Admission& admission,
                                               const plan::PlanStores& plans,
                                               const DatasetCatalog& datasets);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_PLANS_SERVICE_H_
