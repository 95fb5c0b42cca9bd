#include "server/services/admin_service.h"

#include <unistd.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/process_memory.h"
#include "engine/base/status_macros.h"
#include "engine/base/version.h"
#include "hearth/v1/admin.grpc.pb.h"
#include "server/mapping/dataset_spec_mapping.h"
#include "server/mapping/field_violations.h"
#include "server/services/call_guard.h"
#include "server/storage/backup.h"

namespace hearth::server {
namespace {

class AdminService final : public v1::Admin::Service {
 public:
  AdminService(DaemonFacts facts, AdminParts parts)
      : guard_(parts.access), facts_(std::move(facts)), parts_(parts) {}

  grpc::Status GetStatus(grpc::ServerContext* context,
                         const v1::GetStatusRequest* request,
                         v1::Status* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller& caller) -> absl::Status {
                        return Describe(caller, *response);
                      });
  }

  grpc::Status SetDraining(grpc::ServerContext* context,
                           const v1::SetDrainingRequest* request,
                           v1::Status* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller& caller) -> absl::Status {
                        parts_.admission.SetDraining(request->draining());
                        return Describe(caller, *response);
                      });
  }

  grpc::Status Backup(grpc::ServerContext* context,
                      const v1::BackupRequest* request,
                      v1::BackupReport* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        return BackUpTo(request->destination(), *response);
                      });
  }

  grpc::Status CreateToken(grpc::ServerContext* context,
                           const v1::CreateTokenRequest* request,
                           v1::NewToken* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(*response, tokens().Create(*request));
          return absl::OkStatus();
        });
  }

  grpc::Status ListTokens(grpc::ServerContext* context,
                          const v1::ListTokensRequest* request,
                          v1::ListTokensResponse* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) -> absl::Status {
                        for (v1::Token& token : tokens().List())
                          response->add_tokens()->Swap(&token);
                        return absl::OkStatus();
                      });
  }

  grpc::Status RevokeToken(grpc::ServerContext* context,
                           const v1::RevokeTokenRequest* request,
                           v1::Token* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(*response, tokens().Revoke(request->name()));
          return absl::OkStatus();
        });
  }

 private:
  TokenStore& tokens() { return parts_.access.tokens(); }

  absl::Status BackUpTo(const std::string& destination,
                        v1::BackupReport& report) {
    FieldViolations violations;
    CheckPath("destination", destination, violations);
    HEARTH_RETURN_IF_ERROR(violations.ToStatus());
    // Two at a time could have the same destination.
    absl::MutexLock lock(&backup_mutex_);
    HEARTH_ASSIGN_OR_RETURN(const BackupResult result,
                            BackUp(parts_.backup_files, parts_.data_dir,
                                   parts_.store, destination));
    report.set_path(destination);
    report.set_jobs(static_cast<uint64_t>(result.jobs));
    report.set_models(static_cast<uint64_t>(result.models));
    report.set_size_bytes(result.size_bytes);
    return absl::OkStatus();
  }

  absl::Status Describe(const Caller& caller, v1::Status& status) const {
    status.set_caller(caller.name);
    status.set_caller_role(caller.role);
    status.set_version(kVersion);
    status.set_pid(getpid());
    status.mutable_start_time()->set_seconds(
        absl::ToUnixSeconds(facts_.start_time));
    const int64_t now = absl::ToUnixNanos(parts_.clock.Now());
    status.mutable_time()->set_seconds(now / 1'000'000'000);
    status.mutable_time()->set_nanos(static_cast<int32_t>(now % 1'000'000'000));
    status.set_data_dir(parts_.data_dir.path());
    status.set_metrics_address(facts_.metrics_address);
    status.set_draining(parts_.admission.draining());
    status.set_max_running_jobs(static_cast<uint32_t>(facts_.max_running_jobs));
    status.set_max_short_jobs(static_cast<uint32_t>(facts_.max_short_jobs));
    status.set_memory_bytes(ReadProcessMemory().total_bytes());
    status.add_devices("cpu");
    for (const std::string& gpu : facts_.gpus) status.add_devices(gpu);
    using Counts = std::map<v1::JobState, int64_t>;
    HEARTH_ASSIGN_OR_RETURN(const Counts counts, parts_.store.CountByState());
    status.set_jobs_queued(static_cast<uint32_t>(counts.at(v1::QUEUED)));
    status.set_jobs_waiting(static_cast<uint32_t>(counts.at(v1::WAITING)));
    status.set_jobs_running(static_cast<uint32_t>(counts.at(v1::PREPARING) +
                                                  counts.at(v1::RUNNING)));
    HEARTH_ASSIGN_OR_RETURN(const int datasets, parts_.datasets.Count());
    status.set_datasets(static_cast<uint32_t>(datasets));
    HEARTH_ASSIGN_OR_RETURN(const uint64_t free,
                            parts_.files.FreeBytes(parts_.data_dir.path()));
    status.set_disk_free_bytes(free);
    status.set_read_queues(std::string(parts_.read_queues.kind()));
    const io::ReadStatistics reads = parts_.read_queues.statistics();
    status.set_reads_in_flight(static_cast<uint64_t>(reads.in_flight));
    status.set_reads(static_cast<uint64_t>(reads.reads));
    status.set_bytes_read(static_cast<uint64_t>(reads.bytes));
    for (const auto& [owner, bytes] : parts_.memory.BytesByOwner()) {
      v1::MemoryShare& share = *status.add_memory_shares();
      share.set_owner(owner);
      share.set_bytes(bytes);
    }
    status.set_memory_limit_bytes(parts_.memory.limit_bytes());
    status.set_memory_reserved_bytes(parts_.memory.reserved_bytes());
    status.set_memory_warm_bytes(parts_.memory.warm_bytes());
    HEARTH_ASSIGN_OR_RETURN(const uint64_t plan_bytes,
                            parts_.plans.TotalBytes());
    status.set_plan_bytes(plan_bytes);
    status.set_plan_limit_bytes(parts_.plans.options().space_bytes);
    for (size_t i = 0; i < parts_.data_disks.folders().size(); ++i) {
      v1::DataDisk& disk = *status.add_data_disks();
      disk.set_folder(parts_.data_disks.folders()[i]);
      // A disk that does not answer is no reason to tell nothing.
      disk.set_plan_bytes(
          parts_.data_disks.stores()[i]->TotalBytes().value_or(0));
      disk.set_free_bytes(parts_.files.FreeBytes(disk.folder()).value_or(0));
    }
    for (const std::string& warning : parts_.store.warnings()) {
      status.add_warnings(warning);
    }
    return absl::OkStatus();
  }

  const CallGuard guard_;
  const DaemonFacts facts_;
  const AdminParts parts_;
  absl::Mutex backup_mutex_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewAdminService(DaemonFacts facts,
                                               AdminParts parts) {
  return std::make_unique<AdminService>(std::move(facts), parts);
}

}  // namespace hearth::server
