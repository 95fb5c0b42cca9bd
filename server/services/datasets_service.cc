#include "server/services/datasets_service.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status_macros.h"
#include "hearth/v1/datasets.grpc.pb.h"
#include "server/mapping/plan_mapping.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/status_mapping.h"

namespace hearth::server {
namespace {

class DatasetsService final : public v1::Datasets::Service {
 public:
  DatasetsService(Admission& admission, const DatasetCatalog& datasets,
                  plan::PlanStore& plans)
      : admission_(admission), datasets_(datasets), plans_(plans) {}

  grpc::Status ListDatasets(grpc::ServerContext*,
                            const v1::ListDatasetsRequest* request,
                            v1::ListDatasetsResponse* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    absl::StatusOr<std::vector<v1::Dataset>> datasets = datasets_.List();
    if (!datasets.ok()) return ToGrpcStatus(datasets.status());
    for (v1::Dataset& dataset : *datasets) {
      response->add_datasets()->Swap(&dataset);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetDataset(grpc::ServerContext*,
                          const v1::GetDatasetRequest* request,
                          v1::Dataset* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return ToGrpcStatus(Get(request->name(), *response));
  }

  grpc::Status DeleteDataset(grpc::ServerContext*,
                             const v1::DeleteDatasetRequest* request,
                             google::protobuf::Empty*) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return ToGrpcStatus(admission_.DeleteDataset(*request));
  }

 private:
  absl::Status Get(const std::string& name, v1::Dataset& response) const {
    HEARTH_ASSIGN_OR_RETURN(response, datasets_.GetWithStatistics(name));
    HEARTH_ASSIGN_OR_RETURN(const std::vector<plan::PlanInfo> plans,
                            plans_.List());
    for (const plan::PlanInfo& info : plans) {
      if (info.strategy() == plan::kPartitionPlans &&
          info.fingerprint() == response.fingerprint()) {
        *response.add_partitions() = ToProto(info);
      }
    }
    return absl::OkStatus();
  }

  Admission& admission_;
  const DatasetCatalog& datasets_;
  plan::PlanStore& plans_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewDatasetsService(
    Admission& admission, const DatasetCatalog& datasets,
    plan::PlanStore& plans) {
  return std::make_unique<DatasetsService>(admission, datasets, plans);
}

}  // namespace hearth::server
