#include "server/services/plans_service.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "hearth/v1/plans.grpc.pb.h"
#include "server/mapping/plan_mapping.h"
#include "server/services/call_guard.h"

namespace hearth::server {
namespace {

// By fingerprint.
using DatasetNames = std::map<std::string, std::vector<std::string>>;

v1::Plan ToPlan(const plan::PlanInfo& info, const DatasetNames& datasets) {
  v1::Plan proto = ToProto(info);
  if (const auto found = datasets.find(info.fingerprint());
      found != datasets.end()) {
    proto.mutable_datasets()->Add(found->second.begin(), found->second.end());
  }
  return proto;
}

class PlansService final : public v1::Plans::Service {
 public:
  PlansService(AccessControl& access, Admission& admission,
               const plan::PlanStores& plans, const DatasetCatalog& datasets)
      : guard_(access),
        admission_(admission),
        plans_(plans),
        datasets_(datasets) {}

  grpc::Status ListPlans(grpc::ServerContext* context,
                         const v1::ListPlansRequest* request,
                         v1::ListPlansResponse* response) override {
    return guard_.Run(
        *context, *request, response,
        [&](const Caller&) -> absl::Status { return List(*response); });
  }

  grpc::Status GetPlan(grpc::ServerContext* context,
                       const v1::GetPlanRequest* request,
                       v1::Plan* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return Get(request->name(), *response);
                      });
  }

  grpc::Status DeletePlan(grpc::ServerContext* context,
                          const v1::DeletePlanRequest* request,
                          google::protobuf::Empty* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return admission_.DeletePlan(*request);
                      });
  }

 private:
  absl::StatusOr<DatasetNames> NamesOfDatasets() const {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Dataset> datasets,
                            datasets_.List());
    DatasetNames names;
    for (const v1::Dataset& dataset : datasets) {
      names[dataset.fingerprint()].push_back(dataset.name());
    }
    return names;
  }

  absl::Status List(v1::ListPlansResponse& response) const {
    HEARTH_ASSIGN_OR_RETURN(const DatasetNames datasets, NamesOfDatasets());
    HEARTH_ASSIGN_OR_RETURN(const std::vector<plan::PlanInfo> plans,
                            plans_.List());
    for (const plan::PlanInfo& info : plans) {
      *response.add_plans() = ToPlan(info, datasets);
    }
    return absl::OkStatus();
  }

  absl::Status Get(const std::string& name, v1::Plan& response) const {
    HEARTH_ASSIGN_OR_RETURN(const DatasetNames datasets, NamesOfDatasets());
    HEARTH_ASSIGN_OR_RETURN(const plan::PlanInfo info, plans_.Get(name));
    response = ToPlan(info, datasets);
    return absl::OkStatus();
  }

  const CallGuard guard_;
  Admission& admission_;
  const plan::PlanStores& plans_;
  const DatasetCatalog& datasets_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewPlansService(AccessControl& access,
                                               Admission& admission,
                                               const plan::PlanStores& plans,
                                               const DatasetCatalog& datasets) {
  return std::make_unique<PlansService>(access, admission, plans, datasets);
}

}  // namespace hearth::server
