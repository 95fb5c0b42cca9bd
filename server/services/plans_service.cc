#include "server/services/plans_service.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "hearth/v1/plans.grpc.pb.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/status_mapping.h"

namespace hearth::server {
namespace {

// By fingerprint.
using DatasetNames = std::map<std::string, std::vector<std::string>>;

v1::Plan::State ToProto(plan::PlanInfo::State state) {
  switch (state) {
    case plan::PlanInfo::State::kWhole:
      return v1::Plan::WHOLE;
    case plan::PlanInfo::State::kUnfinished:
      return v1::Plan::UNFINISHED;
    case plan::PlanInfo::State::kDamaged:
      return v1::Plan::DAMAGED;
  }
  return v1::Plan::STATE_UNSPECIFIED;
}

v1::Plan ToProto(const plan::PlanInfo& info, const DatasetNames& datasets) {
  v1::Plan proto;
  proto.set_name(info.name);
  proto.set_strategy(info.strategy());
  proto.set_fingerprint(info.fingerprint());
  if (const auto found = datasets.find(info.fingerprint());
      found != datasets.end()) {
    proto.mutable_datasets()->Add(found->second.begin(), found->second.end());
  }
  proto.set_state(ToProto(info.state));
  proto.set_in_use(info.in_use);
  proto.set_size_bytes(info.size_bytes);
  if (info.created != absl::InfinitePast()) {
    proto.mutable_create_time()->set_seconds(absl::ToUnixSeconds(info.created));
  }
  if (info.used != absl::InfinitePast()) {
    proto.mutable_use_time()->set_seconds(absl::ToUnixSeconds(info.used));
  }
  for (const auto& [name, value] : info.properties) {
    v1::PlanProperty& property = *proto.add_properties();
    property.set_name(name);
    property.set_value(value);
  }
  return proto;
}

class PlansService final : public v1::Plans::Service {
 public:
  PlansService(Admission& admission, plan::PlanStore& plans,
               const DatasetCatalog& datasets)
      : admission_(admission), plans_(plans), datasets_(datasets) {}

  grpc::Status ListPlans(grpc::ServerContext*,
                         const v1::ListPlansRequest* request,
                         v1::ListPlansResponse* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return ToGrpcStatus(List(*response));
  }

  grpc::Status GetPlan(grpc::ServerContext*, const v1::GetPlanRequest* request,
                       v1::Plan* response) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return ToGrpcStatus(Get(request->name(), *response));
  }

  grpc::Status DeletePlan(grpc::ServerContext*,
                          const v1::DeletePlanRequest* request,
                          google::protobuf::Empty*) override {
    const absl::Status checked = CheckRequest(*request);
    if (!checked.ok()) return ToGrpcStatus(checked);
    return ToGrpcStatus(admission_.DeletePlan(*request));
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
      *response.add_plans() = ToProto(info, datasets);
    }
    return absl::OkStatus();
  }

  absl::Status Get(const std::string& name, v1::Plan& response) const {
    HEARTH_ASSIGN_OR_RETURN(const DatasetNames datasets, NamesOfDatasets());
    HEARTH_ASSIGN_OR_RETURN(const plan::PlanInfo info, plans_.Get(name));
    response = ToProto(info, datasets);
    return absl::OkStatus();
  }

  Admission& admission_;
  plan::PlanStore& plans_;
  const DatasetCatalog& datasets_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewPlansService(Admission& admission,
                                               plan::PlanStore& plans,
                                               const DatasetCatalog& datasets) {
  return std::make_unique<PlansService>(admission, plans, datasets);
}

}  // namespace hearth::server
