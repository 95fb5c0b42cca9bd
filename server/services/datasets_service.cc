#include "server/services/datasets_service.h"

#include <utility>
#include <vector>

#include "hearth/v1/datasets.grpc.pb.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/status_mapping.h"

namespace hearth::server {
namespace {

class DatasetsService final : public v1::Datasets::Service {
 public:
  DatasetsService(Admission& admission, const DatasetCatalog& datasets)
      : admission_(admission), datasets_(datasets) {}

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
    absl::StatusOr<v1::Dataset> dataset =
        datasets_.GetWithStatistics(request->name());
    if (!dataset.ok()) return ToGrpcStatus(dataset.status());
    response->Swap(&*dataset);
    return grpc::Status::OK;
  }

  grpc::Status DeleteDataset(grpc::ServerContext*,
                             const v1::DeleteDatasetRequest* request,
                             google::protobuf::Empty*) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return ToGrpcStatus(admission_.DeleteDataset(*request));
  }

 private:
  Admission& admission_;
  const DatasetCatalog& datasets_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewDatasetsService(
    Admission& admission, const DatasetCatalog& datasets) {
  return std::make_unique<DatasetsService>(admission, datasets);
}

}  // namespace hearth::server
