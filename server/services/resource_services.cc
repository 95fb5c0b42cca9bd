#include "server/services/resource_services.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/base/version.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/plan/plan_store.h"
#include "hearth/v1/admin.grpc.pb.h"
#include "hearth/v1/datasets.grpc.pb.h"
#include "hearth/v1/plans.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/cluster/cluster.h"
#include "server/feeds/feeds.h"
#include "server/jobs/admission.h"
#include "server/mapping/dataset_spec_mapping.h"
#include "server/mapping/report_mapping.h"
#include "server/mapping/request_checks.h"
#include "server/services/call_guard.h"
#include "server/services/transfers.h"
#include "server/storage/data_dir.h"
#include "server/storage/dataset_catalog.h"
#include "server/storage/job_recovery.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"
#include "server/storage/staged_upload.h"
#include "server/storage/token_store.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

namespace {

class DatasetsService final
    : public v1::Datasets::WithCallbackMethod_SendUpload<
          v1::Datasets::Service> {
 public:
  explicit DatasetsService(const DatasetsDependencies& deps)
      : guard_(deps.access),
        admission_(deps.admission),
        datasets_(deps.datasets),
        plans_(deps.plans),
        uploads_(deps.uploads),
        transfers_(deps.transfers) {}

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

std::unique_ptr<grpc::Service> NewDatasetsService(
    const DatasetsDependencies& deps) {
  return std::make_unique<DatasetsService>(deps);
}

namespace {

// Names of datasets by fingerprint.
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

namespace {

// Time that a member has to answer.
constexpr absl::Duration kMemberPatience = absl::Seconds(2);

class AdminService final : public v1::Admin::Service {
 public:
  AdminService(DaemonFacts facts, AdminDependencies deps)
      : guard_(deps.access), facts_(std::move(facts)), deps_(deps) {}

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
                        deps_.admission.SetDraining(request->draining());
                        deps_.feeds.SetDraining(request->draining());
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

  grpc::Status ListMembers(grpc::ServerContext* context,
                           const v1::ListMembersRequest* request,
                           v1::ListMembersResponse* response) override {
    return guard_.Run(*context, *request, response,
                      [&](const Caller&) { return ListMembers(*response); });
  }

 private:
  absl::Status ListMembers(v1::ListMembersResponse& response) const {
    if (!deps_.peers.has_value()) {
      return absl::FailedPreconditionError(
          "this daemon has no cluster (hearthd --cluster)");
    }
    const Cluster& cluster = deps_.peers->cluster;
    v1::Member& self = *response.add_members();
    self.set_name(cluster.name());
    self.set_address(cluster.at_start().listen);
    HEARTH_ASSIGN_OR_RETURN(*self.mutable_state(),
                            OwnMemberState(*deps_.peers));
    HEARTH_ASSIGN_OR_RETURN(std::vector<v1::Member> others,
                            cluster.AskMembers(kMemberPatience));
    for (v1::Member& other : others) response.add_members()->Swap(&other);
    return absl::OkStatus();
  }

  TokenStore& tokens() { return deps_.access.tokens(); }

  absl::Status BackUpTo(const std::string& destination,
                        v1::BackupReport& report) {
    FieldViolations violations;
    CheckPath("destination", destination, violations);
    HEARTH_RETURN_IF_ERROR(violations.ToStatus());
    // Two concurrent backups could have the same destination.
    absl::MutexLock lock(&backup_mutex_);
    HEARTH_ASSIGN_OR_RETURN(
        const BackupResult result,
        BackUp(deps_.backup_files, deps_.data_dir, deps_.store, destination));
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
    *status.mutable_time() = TimestampOf(absl::ToUnixNanos(deps_.clock.Now()));
    status.set_data_dir(deps_.data_dir.path());
    status.set_metrics_address(facts_.metrics_address);
    status.set_draining(deps_.admission.draining());
    status.set_max_running_jobs(static_cast<uint32_t>(facts_.max_running_jobs));
    status.set_max_short_jobs(static_cast<uint32_t>(facts_.max_short_jobs));
    status.set_memory_bytes(ReadProcessMemory().total_bytes());
    status.add_devices("cpu");
    for (const std::string& gpu : facts_.gpus) status.add_devices(gpu);
    using Counts = std::map<v1::JobState, int64_t>;
    HEARTH_ASSIGN_OR_RETURN(const Counts counts, deps_.store.CountByState());
    status.set_jobs_queued(static_cast<uint32_t>(counts.at(v1::QUEUED)));
    status.set_jobs_waiting(static_cast<uint32_t>(counts.at(v1::WAITING)));
    status.set_jobs_running(static_cast<uint32_t>(counts.at(v1::PREPARING) +
                                                  counts.at(v1::RUNNING)));
    HEARTH_ASSIGN_OR_RETURN(const int datasets, deps_.datasets.Count());
    status.set_datasets(static_cast<uint32_t>(datasets));
    HEARTH_ASSIGN_OR_RETURN(const uint64_t free,
                            deps_.files.FreeBytes(deps_.data_dir.path()));
    status.set_disk_free_bytes(free);
    status.set_read_queues(std::string(deps_.read_queues.kind()));
    const io::ReadStatistics reads = deps_.read_queues.statistics();
    status.set_reads_in_flight(static_cast<uint64_t>(reads.in_flight));
    status.set_reads(static_cast<uint64_t>(reads.reads));
    status.set_bytes_read(static_cast<uint64_t>(reads.bytes));
    for (const auto& [owner, bytes] : deps_.memory.BytesByOwner()) {
      v1::MemoryShare& share = *status.add_memory_shares();
      share.set_owner(owner);
      share.set_bytes(bytes);
    }
    status.set_memory_limit_bytes(deps_.memory.limit_bytes());
    status.set_memory_reserved_bytes(deps_.memory.reserved_bytes());
    status.set_memory_warm_bytes(deps_.memory.warm_bytes());
    HEARTH_ASSIGN_OR_RETURN(const uint64_t plan_bytes,
                            deps_.plans.TotalBytes());
    status.set_plan_bytes(plan_bytes);
    status.set_plan_limit_bytes(deps_.plans.options().space_bytes);
    for (size_t i = 0; i < deps_.data_disks.folders().size(); ++i) {
      v1::DataDisk& disk = *status.add_data_disks();
      disk.set_folder(deps_.data_disks.folders()[i]);
      // Status is reported also when a disk does not answer.
      disk.set_plan_bytes(
          deps_.data_disks.stores()[i]->TotalBytes().value_or(0));
      disk.set_free_bytes(deps_.files.FreeBytes(disk.folder()).value_or(0));
    }
    for (const std::string& warning : deps_.store.warnings()) {
      status.add_warnings(warning);
    }
    return absl::OkStatus();
  }

  const CallGuard guard_;
  const DaemonFacts facts_;
  const AdminDependencies deps_;
  absl::Mutex backup_mutex_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewAdminService(DaemonFacts facts,
                                               AdminDependencies deps) {
  return std::make_unique<AdminService>(std::move(facts), deps);
}

}  // namespace hearth::server
