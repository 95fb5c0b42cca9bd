#ifndef HEARTH_SERVER_JOBS_ADMISSION_H_
#define HEARTH_SERVER_JOBS_ADMISSION_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/plans.pb.h"
#include "server/mapping/spec_mapping.h"

namespace hearth::io {
class FileSystem;
}  // namespace hearth::io

namespace hearth::job {
class WarmStrategies;
}  // namespace hearth::job

namespace hearth::plan {
class PlanStores;
}  // namespace hearth::plan

namespace hearth::server {

class Cluster;
class DataDir;
class DatasetCatalog;
class JobStore;
class Scheduler;
class SweepStore;
class Trash;
class UploadStaging;
struct JobOrigin;

/// Names that calls in progress rely on. A call that has claimed its names can
/// look at files and remove them without a lock: no other call removes what it
/// has just seen. Thread-safe.
class NameClaims {
 public:
  /// A claim on names, released when destroyed. Move-only. The NameClaims must
  /// outlive it.
  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept { *this = std::move(other); }
    Claim& operator=(Claim&& other) noexcept {
      std::swap(claims_, other.claims_);
      std::swap(names_, other.names_);
      return *this;
    }
    ~Claim() {
      for (const std::string& name : names_) claims_->Release(name);
    }

    /// Takes over the names of `other`. REQUIRES: both are claims of the same
    /// NameClaims.
    void Add(Claim other) {
      claims_ = other.claims_;
      names_.insert(names_.end(), other.names_.begin(), other.names_.end());
      other.names_.clear();
    }

   private:
    friend class NameClaims;
    Claim(NameClaims* claims, std::string name)
        : claims_(claims), names_({std::move(name)}) {}

    NameClaims* claims_ = nullptr;
    std::vector<std::string> names_;
  };

  /// Claims `name` ("dataset \"cora\"") jointly with others. `purpose` ("is
  /// used by ...") is told to calls that are refused meanwhile.
  /// FAILED_PRECONDITION while a call has claimed the name alone.
  absl::StatusOr<Claim> Share(const std::string& name,
                              absl::string_view purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Claims `name` alone. FAILED_PRECONDITION while any call has claimed it.
  absl::StatusOr<Claim> Take(const std::string& name, absl::string_view purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until no call has claimed `name`, and claims it alone.
  Claim Await(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Holders {
    int count = 0;
    bool alone = false;
    std::string purpose;
  };

  void Release(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar released_;
  std::map<std::string, Holders> holders_ ABSL_GUARDED_BY(mutex_);
};

/// Parts of the daemon that an Admission uses; all outlive it.
struct AdmissionDependencies {
  io::FileSystem& files;
  /// See JobRunnerDependencies.
  io::FileSystem& export_files;
  const DataDir& data_dir;
  const DatasetCatalog& datasets;
  job::WarmStrategies& warm_strategies;
  const plan::PlanStores& plans;
  JobStore& store;
  SweepStore& sweeps;
  UploadStaging& uploads;
  Scheduler& scheduler;
  Trash& trash;
  /// The cluster of --cluster; null if there is none.
  Cluster* cluster = nullptr;
};

/// Admits jobs, and deletes jobs, datasets and plans. No dataset vanishes
/// between the check that a job can use it and the job's entry, and no two
/// imports make the same dataset: calls claim the names that they rely on
/// (NameClaims), and hold no lock while they look at files. Thread-safe.
class Admission {
 public:
  Admission(const AdmissionDependencies& dependencies, SpecLimits limits,
            std::vector<std::string> import_roots);

  static constexpr int kMostPriority = 100;
  /// Maximum size of a job's spec and of a sweep's spec, in bytes.
  static constexpr size_t kMaxSpecBytes = 64 << 10;
  static constexpr size_t kMaxSweepSpecBytes = 256 << 10;

  /// Checks and queues a job. Errors as Jobs.SubmitJob.
  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request,
                                 const JobOrigin& origin)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Checks and queues a job that has FAILED or was CANCELLED. Errors as
  /// Jobs.AdoptJob.
  absl::StatusOr<v1::Job> Adopt(const v1::AdoptJobRequest& request,
                                const JobOrigin& origin)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Jobs.ResumeJob.
  absl::StatusOr<v1::Job> Resume(const v1::ResumeJobRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Cancels a job (Scheduler::Cancel). The job cannot be resumed before its
  /// leftovers are removed.
  absl::Status Cancel(const std::string& id);

  /// OK if new work is accepted and a job with `spec`, which is validated,
  /// could run now. The names that the job relies on stay claimed while the
  /// claim lives.
  absl::StatusOr<NameClaims::Claim> Admit(const v1::JobSpec& spec)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Holds a dataset that another machine reads: it is not deleted while the
  /// claim lives. NOT_FOUND; FAILED_PRECONDITION while it is being deleted.
  absl::StatusOr<NameClaims::Claim> HoldDataset(const std::string& name);

  /// OK if no dataset of this name exists and no job makes one; ALREADY_EXISTS
  /// otherwise. FAILED_PRECONDITION while another call looks at the name.
  absl::Status CheckNewDataset(const std::string& name);

  /// Waits until an earlier call with the same request id has returned. A later
  /// call waits while the claim lives.
  NameClaims::Claim AwaitRequest(const std::string& request_id);

  /// INVALID_ARGUMENT if a request's id or priority is out of bounds.
  static absl::Status CheckRequest(const std::string& request_id, int priority);

  /// INVALID_ARGUMENT, telling the size, if a spec has more than `limit` bytes.
  static absl::Status CheckSize(const google::protobuf::Message& spec,
                                size_t limit);

  /// Calls `remove`, which deletes `target`, unless a request with this id has
  /// succeeded before.
  absl::Status DeleteOnce(const std::string& request_id,
                          const std::string& target,
                          absl::FunctionRef<absl::Status()> remove);

  const SpecLimits& limits() const { return limits_; }

  /// Moves jobs that cannot continue from their checkpoints to FAILED and
  /// removes them from `unended`, the store's QUEUED and WAITING jobs. Call
  /// before the scheduler loads the jobs.
  absl::Status FailUnresumable(std::vector<v1::Job>& unended);

  // Deletions. A request that has succeeded before succeeds without doing
  // anything.

  /// Deletes an ended job and its folder. FAILED_PRECONDITION while the job or
  /// its sweep has not ended, or a queued job exports or evaluates its model.
  absl::Status DeleteJob(const v1::DeleteJobRequest& request);

  /// Deletes a dataset and its plans. FAILED_PRECONDITION, naming the job,
  /// while a job that has not ended uses it.
  absl::Status DeleteDataset(const v1::DeleteDatasetRequest& request);

  /// Deletes an upload. FAILED_PRECONDITION while a job uses it.
  absl::Status DeleteUpload(const v1::DeleteUploadRequest& request);

  /// Deletes a plan. FAILED_PRECONDITION while a job uses it.
  absl::Status DeletePlan(const v1::DeletePlanRequest& request);

  /// While draining, Submit returns UNAVAILABLE for new jobs, and jobs of
  /// sweeps do not begin (Scheduler::SetDraining).
  void SetDraining(bool draining) ABSL_LOCKS_EXCLUDED(mutex_);
  bool draining() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// The daemon stops: from now on, Submit returns UNAVAILABLE for new jobs.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status CheckOpen() const ABSL_LOCKS_EXCLUDED(mutex_);
  // FAILED_PRECONDITION if the job has a checkpoint that cannot be resumed.
  absl::Status CheckResumable(const v1::Job& job);
  // Checks that a job could run now; its names stay claimed while the claim
  // lives.
  absl::StatusOr<NameClaims::Claim> CheckPossible(const v1::JobSpec& spec);
  // Checks that no dataset of this name exists and no job makes one.
  absl::StatusOr<NameClaims::Claim> ClaimNewDataset(const std::string& name);
  absl::StatusOr<NameClaims::Claim> ClaimDataset(
      const std::string& name,
      absl::string_view purpose = "is used by a job that is submitted");
  // Checks that the upload is complete, and that no job uses it.
  absl::StatusOr<NameClaims::Claim> ClaimUpload(const std::string& id);
  absl::StatusOr<NameClaims::Claim> ClaimModel(const std::string& job_id);
  // Fills in the train job's spec of an evaluate job.
  absl::Status FillTrainSpec(v1::JobSpec& spec) const;
  absl::Status RemoveJob(const std::string& id);
  absl::Status RemoveDataset(const std::string& name);
  absl::Status RemovePlans(const std::string& fingerprint) const;
  // FAILED_PRECONDITION if the dataset has no nodes of the part that
  // `num_nodes` counts; the message has `part`, which names them and their use.
  absl::Status CheckHasPart(const std::string& name,
                            uint64_t (v1::NodeType::*num_nodes)() const,
                            absl::string_view part) const;
  // ALREADY_EXISTS if something is at `path`; INVALID_ARGUMENT if it is in the
  // data directory.
  absl::Status CheckNewPath(const std::string& path) const;

  const AdmissionDependencies dependencies_;
  const SpecLimits limits_;
  const std::vector<std::string> import_roots_;
  NameClaims claims_;
  // Stopped when the daemon stops.
  std::stop_source closing_;
  mutable absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_ADMISSION_H_
