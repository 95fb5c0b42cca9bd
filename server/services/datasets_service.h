#ifndef HEARTH_SERVER_SERVICES_DATASETS_SERVICE_H_
#define HEARTH_SERVER_SERVICES_DATASETS_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "engine/plan/plan_store.h"
#include "server/access/access_control.h"
#include "server/jobs/admission.h"
#include "server/services/transfers.h"
#include "server/storage/dataset_catalog.h"
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

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_DATASETS_SERVICE_H_
