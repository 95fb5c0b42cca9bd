#include "server/services/datasets_service.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status_macros.h"
#include "hearth/v1/datasets.grpc.pb.h"
#include "server/mapping/plan_mapping.h"
#include "server/services/call_guard.h"
#include "server/services/upload_stream.h"
#include "server/storage/staged_upload.h"

namespace hearth::server {
namespace {

class DatasetsService final
    : public v1::Datasets::WithCallbackMethod_SendUpload<
          v1::Datasets::Service> {
 public:
  explicit DatasetsService(const DatasetsParts& parts)
      : guard_(parts.access),
        admission_(parts.admission),
        datasets_(parts.datasets),
        plans_(parts.plans),
        uploads_(parts.uploads),
        transfers_(parts.transfers) {}

  grpc::Status ListDatasets(grpc::ServerContext* context,
                            const v1::ListDatasetsRequest* request,
                            v1::ListDatasetsResponse* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          absl::StatusOr<std::vector<v1::Dataset>> datasets = datasets_.List();
          if (!datasets.ok()) return datasets.status();
          for (v1::Dataset& dataset : *datasets) {
            response->add_datasets()->Swap(&dataset);
          }
          return absl::OkStatus();
        });
  }

  grpc::Status GetDataset(grpc::ServerContext* context,
                          const v1::GetDatasetRequest* request,
                          v1::Dataset* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return Get(request->name(), *response);
                      });
  }

  grpc::Status DeleteDataset(grpc::ServerContext* context,
                             const v1::DeleteDatasetRequest* request,
                             google::protobuf::Empty* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return admission_.DeleteDataset(*request);
                      });
  }

  grpc::Status BeginUpload(grpc::ServerContext* context,
                           const v1::BeginUploadRequest* request,
                           v1::Upload* response) override {
    return guard_.Run(
        *context, *request, response,
        [&](const Caller& caller) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(CheckUploadRequest(*request));
          HEARTH_RETURN_IF_ERROR(admission_.CheckNewDataset(request->name()));
          HEARTH_ASSIGN_OR_RETURN(*response,
                                  uploads_.Begin(*request, caller.name,
                                                 caller.role >= v1::OPERATOR));
          return absl::OkStatus();
        });
  }

  grpc::ServerReadReactor<v1::UploadChunk>* SendUpload(
      grpc::CallbackServerContext* context, v1::Upload* response) override {
    context->AddInitialMetadata("hearth-watch", "open");
    return StartUploadStream(transfers_, guard_, uploads_, *context, response);
  }

  grpc::Status ListUploads(grpc::ServerContext* context,
                           const v1::ListUploadsRequest* request,
                           v1::ListUploadsResponse* response) override {
    return guard_.Run(*context, *request, response, [&](const Caller&) {
      for (v1::Upload& upload : uploads_.List()) {
        response->add_uploads()->Swap(&upload);
      }
      return absl::OkStatus();
    });
  }

  grpc::Status DeleteUpload(grpc::ServerContext* context,
                            const v1::DeleteUploadRequest* request,
                            google::protobuf::Empty* response) override {
    return guard_.Run(*context, *request, response, [&](const Caller&) {
      return admission_.DeleteUpload(*request);
    });
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

  const CallGuard guard_;
  Admission& admission_;
  const DatasetCatalog& datasets_;
  plan::PlanStore& plans_;
  UploadStaging& uploads_;
  Transfers& transfers_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewDatasetsService(const DatasetsParts& parts) {
  return std::make_unique<DatasetsService>(parts);
}

}  // namespace hearth::server
