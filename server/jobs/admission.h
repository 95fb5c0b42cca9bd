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
#include "engine/io/file_system.h"
#include "engine/job/memory/warm_strategies.h"
#include "engine/plan/plan_store.h"
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/plans.pb.h"
#include "server/jobs/scheduler.h"
#include "server/mapping/spec_mapping.h"
#include "server/storage/data_dir.h"
#include "server/storage/dataset_catalog.h"
#include "server/storage/disk_space.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

/// Names that calls in progress rely on, so that a call can look at files and
/// remove them without a lock, and no other call takes away what it has just
/// seen. Thread-safe.
class NameClaims {
 public:
  /// A claim on names, given back when destroyed. Move-only. The claims must
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

    /// Takes over what the other one claims. REQUIRES: of the same claims.
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

  /// Claims `name` ("dataset \"cora\"") together with others. `purpose`
  /// ("is used by ...") is told to those that are refused meanwhile.
  /// FAILED_PRECONDITION while somebody has it alone.
  absl::StatusOr<Claim> Share(const std::string& name,
                              absl::string_view purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Claims `name` alone. FAILED_PRECONDITION while anybody has it.
  absl::StatusOr<Claim> Take(const std::string& name, absl::string_view purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until nobody has `name`, and claims it alone.
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

/// The parts that an Admission uses; all must outlive it.
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
};

/// Admits jobs, and deletes jobs, datasets and plans. No dataset vanishes
/// between the check that a job can use it and the job's entry, and no two
/// imports make the same dataset: calls claim the names that they rely on, and
/// hold no lock while they look at files. Thread-safe.
class Admission {
 public:
  Admission(const AdmissionDependencies& dependencies, SpecLimits limits,
            std::vector<std::string> import_roots);

  static constexpr int kMostPriority = 100;
  /// Bytes of a job's spec, and of a sweep's, at most.
  static constexpr size_t kMaxSpecBytes = 64 << 10;
  static constexpr size_t kMaxSweepSpecBytes = 256 << 10;

  /// Checks and queues a job. Errors as Jobs.SubmitJob.
  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request,
                                 const JobOrigin& origin)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Checks and queues a job that has FAILED or was CANCELLED. Errors as
  /// Jobs.ResumeJob.
  absl::StatusOr<v1::Job> Resume(const v1::ResumeJobRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Cancels a job (Scheduler::Cancel), which cannot be resumed before what it
  /// has left is gone.
  absl::Status Cancel(const std::string& id);

  /// OK if new work is taken and a job of `spec`, which is validated, could run
  /// now. Nothing that it relies on goes while the claim lives.
  absl::StatusOr<NameClaims::Claim> Admit(const v1::JobSpec& spec)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// OK if there is no dataset of the name, and no job that makes one.
  /// ALREADY_EXISTS; FAILED_PRECONDITION while another call looks at it.
  absl::Status CheckNewDataset(const std::string& name);

  /// Waits for the same request, sent before, to be answered; so does the next
  /// one while the claim lives.
  NameClaims::Claim AwaitRequest(const std::string& request_id);

  /// OK unless an id of a request, or a priority, is out of bounds.
  static absl::Status CheckRequest(const std::string& request_id, int priority);

  /// INVALID_ARGUMENT, telling the size, if a spec has more than `limit` bytes.
  static absl::Status CheckSize(const google::protobuf::Message& spec,
                                size_t limit);

  /// Calls `remove`, which deletes `target`, unless the request is a repeated
  /// one that is done.
  absl::Status DeleteOnce(const std::string& request_id,
                          const std::string& target,
                          absl::FunctionRef<absl::Status()> remove);

  const SpecLimits& limits() const { return limits_; }

  /// Moves those that cannot go on from their checkpoints to FAILED, and takes
  /// them out of `unended`: the store's jobs that are QUEUED or WAITING. Call
  /// before the scheduler loads them.
  absl::Status FailUnresumable(std::vector<v1::Job>& unended);

  // A deletion whose request has succeeded before succeeds and does nothing.

  /// Forgets an ended job and throws its folder away. FAILED_PRECONDITION while
  /// it or its sweep has not ended, or a queued job exports or evaluates its
  /// model.
  absl::Status DeleteJob(const v1::DeleteJobRequest& request);

  /// Deletes a dataset and its plans. FAILED_PRECONDITION, naming the job,
  /// while one that has not ended uses it.
  absl::Status DeleteDataset(const v1::DeleteDatasetRequest& request);

  /// Removes an upload. FAILED_PRECONDITION while a job uses it.
  absl::Status DeleteUpload(const v1::DeleteUploadRequest& request);

  /// Removes a plan. FAILED_PRECONDITION while a job uses it.
  absl::Status DeletePlan(const v1::DeletePlanRequest& request);

  /// While draining, Submit gives UNAVAILABLE for new jobs, and jobs of sweeps
  /// do not begin (Scheduler::SetDraining).
  void SetDraining(bool draining) ABSL_LOCKS_EXCLUDED(mutex_);
  bool draining() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// From now on, Submit gives UNAVAILABLE for new jobs: the daemon stops.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status CheckOpen() const ABSL_LOCKS_EXCLUDED(mutex_);
  // FAILED_PRECONDITION if there is a checkpoint that cannot be gone on from.
  absl::Status CheckResumable(const v1::Job& job);
  // Checks that the job could run now. Nothing that it relies on goes while
  // the claim lives.
  absl::StatusOr<NameClaims::Claim> CheckPossible(const v1::JobSpec& spec);
  // Checks that there is no dataset, and no job that makes one, of the name.
  absl::StatusOr<NameClaims::Claim> ClaimNewDataset(const std::string& name);
  absl::StatusOr<NameClaims::Claim> ClaimDataset(const std::string& name);
  // Checks that the upload is whole, and that no job uses it.
  absl::StatusOr<NameClaims::Claim> ClaimUpload(const std::string& id);
  absl::StatusOr<NameClaims::Claim> ClaimModel(const std::string& job_id);
  // Sets the train job's spec in that of an evaluate job.
  absl::Status FillTrainSpec(v1::JobSpec& spec) const;
  absl::Status RemoveJob(const std::string& id);
  absl::Status RemoveDataset(const std::string& name);
  absl::Status RemovePlans(const std::string& fingerprint) const;
  // FAILED_PRECONDITION if the dataset has none of those that `num_nodes`
  // counts, and `part` names, with what they are for.
  absl::Status CheckHasPart(const std::string& name,
                            uint64_t (v1::NodeType::*num_nodes)() const,
                            absl::string_view part) const;
  // ALREADY_EXISTS if there is something; INVALID_ARGUMENT if it is within the
  // data directory.
  absl::Status CheckNewPath(const std::string& path) const;

  const AdmissionDependencies dependencies_;
  const SpecLimits limits_;
  const std::vector<std::string> import_roots_;
  NameClaims claims_;
  // Requested when the daemon stops.
  std::stop_source closing_;
  mutable absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_ADMISSION_H_
