#ifndef HEARTH_SERVER_JOBS_ADMISSION_H_
#define HEARTH_SERVER_JOBS_ADMISSION_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/io/file_system.h"
#include "engine/job/warm_strategies.h"
#include "engine/plan/plan_store.h"
#include "hearth/v1/jobs.pb.h"
#include "server/jobs/scheduler.h"
#include "server/mapping/spec_mapping.h"
#include "server/storage/data_dir.h"
#include "server/storage/dataset_catalog.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// The parts that an Admission uses; all must outlive it.
struct AdmissionParts {
  io::FileSystem& files;
  const DataDir& data_dir;
  const DatasetCatalog& datasets;
  job::WarmStrategies& warm_strategies;
  plan::PlanStore& plans;
  JobStore& store;
  Scheduler& scheduler;
};

/// Admits jobs, and deletes jobs and datasets, one at a time: so no dataset
/// vanishes between the check that a job can use it and the job's entry, and
/// no two imports make the same dataset. Thread-safe.
class Admission {
 public:
  Admission(const AdmissionParts& parts, SpecLimits limits,
            std::vector<std::string> import_roots);

  /// Checks and queues a job. Errors as Jobs.SubmitJob.
  absl::StatusOr<v1::Job> Submit(const std::string& request_id,
                                 v1::JobSpec spec) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Checks and queues a job that has FAILED or was CANCELLED. Errors as
  /// Jobs.ResumeJob.
  absl::StatusOr<v1::Job> Resume(const v1::ResumeJobRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Moves the QUEUED jobs that cannot go on from their checkpoints to FAILED.
  /// Call before the scheduler loads them.
  absl::Status FailUnresumable() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Forgets an ended job and removes its folder. FAILED_PRECONDITION while it
  /// has not ended or a queued export needs its model.
  absl::Status DeleteJob(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Deletes a dataset and its plans. FAILED_PRECONDITION, naming the job,
  /// while one that has not ended uses it.
  absl::Status DeleteDataset(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// While draining, Submit gives UNAVAILABLE for new jobs.
  void SetDraining(bool draining) ABSL_LOCKS_EXCLUDED(mutex_);
  bool draining() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// From now on, Submit gives UNAVAILABLE for new jobs: the daemon stops.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // FAILED_PRECONDITION if there is a checkpoint that cannot be gone on from.
  absl::Status CheckResumable(const v1::Job& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckPossible(const v1::JobSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // ALREADY_EXISTS if there is a dataset, or a job that makes one, of the name.
  absl::Status CheckNewDataset(const std::string& name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RemovePlans(const std::string& fingerprint) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // ALREADY_EXISTS if there is something.
  absl::Status CheckNewPath(const std::string& path) const;
  absl::Status CheckExport(const v1::ExportSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The id of an unended job for which `uses` holds; empty = none.
  template <typename Predicate>
  absl::StatusOr<std::string> FindUnended(const Predicate& uses) const;

  const AdmissionParts parts_;
  const SpecLimits limits_;
  const std::vector<std::string> import_roots_;
  mutable absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_ADMISSION_H_
