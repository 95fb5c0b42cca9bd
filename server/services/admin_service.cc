#include "server/services/admin_service.h"

#include <unistd.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/process_memory.h"
#include "engine/base/status_macros.h"
#include "engine/base/version.h"
#include "hearth/v1/admin.grpc.pb.h"
#include "server/mapping/status_mapping.h"

namespace hearth::server {
namespace {

class AdminService final : public v1::Admin::Service {
 public:
  AdminService(DaemonFacts facts, AdminParts parts)
      : facts_(std::move(facts)), parts_(parts) {}

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::Status* response) override {
    return ToGrpcStatus(Describe(*response));
  }

  grpc::Status SetDraining(grpc::ServerContext*,
                           const v1::SetDrainingRequest* request,
                           v1::Status* response) override {
    parts_.admission.SetDraining(request->draining());
    return ToGrpcStatus(Describe(*response));
  }

 private:
  absl::Status Describe(v1::Status& status) const {
    status.set_version(kVersion);
    status.set_pid(getpid());
    status.mutable_start_time()->set_seconds(
        absl::ToUnixSeconds(facts_.start_time));
    status.set_data_dir(facts_.data_dir);
    status.set_metrics_address(facts_.metrics_address);
    status.set_draining(parts_.admission.draining());
    status.set_max_running_jobs(static_cast<uint32_t>(facts_.max_running_jobs));
    status.set_max_short_jobs(static_cast<uint32_t>(facts_.max_short_jobs));
    status.set_memory_bytes(ReadProcessMemory().total_bytes());
    status.add_devices("cpu");
    if (!facts_.gpu_name.empty()) {
      status.add_devices(absl::StrCat("cuda:0 (", facts_.gpu_name, ")"));
    }
    using Counts = std::map<v1::JobState, int64_t>;
    HEARTH_ASSIGN_OR_RETURN(const Counts counts, parts_.store.CountByState());
    status.set_jobs_queued(static_cast<uint32_t>(counts.at(v1::QUEUED)));
    status.set_jobs_waiting(static_cast<uint32_t>(counts.at(v1::WAITING)));
    status.set_jobs_running(static_cast<uint32_t>(counts.at(v1::PREPARING) +
                                                  counts.at(v1::RUNNING)));
    HEARTH_ASSIGN_OR_RETURN(const int datasets, parts_.datasets.Count());
    status.set_datasets(static_cast<uint32_t>(datasets));
    HEARTH_ASSIGN_OR_RETURN(const uint64_t free,
                            parts_.files.FreeBytes(facts_.data_dir));
    status.set_disk_free_bytes(free);
    status.set_read_queues(std::string(parts_.read_queues.kind()));
    status.set_reads_in_flight(
        static_cast<uint64_t>(parts_.read_queues.statistics().in_flight));
    status.set_memory_limit_bytes(parts_.memory.limit_bytes());
    status.set_memory_reserved_bytes(parts_.memory.reserved_bytes());
    status.set_memory_warm_bytes(parts_.memory.warm_bytes());
    HEARTH_ASSIGN_OR_RETURN(const uint64_t plan_bytes,
                            parts_.plans.TotalBytes());
    status.set_plan_bytes(plan_bytes);
    status.set_plan_limit_bytes(parts_.plans.options().space_bytes);
    return absl::OkStatus();
  }

  const DaemonFacts facts_;
  const AdminParts parts_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewAdminService(DaemonFacts facts,
                                               AdminParts parts) {
  return std::make_unique<AdminService>(std::move(facts), parts);
}

}  // namespace hearth::server
