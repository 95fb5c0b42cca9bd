#ifndef HEARTH_ENGINE_JOB_INTERFACE_JOB_ENVIRONMENT_H_
#define HEARTH_ENGINE_JOB_INTERFACE_JOB_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cuda/device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/job/memory/batch_measurement.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/memory/warm_strategies.h"
#include "engine/machine/disk_profile.h"
#include "engine/plan/plan_store.h"
#include "engine/store/block_checksums.h"
#include "engine/store/dataset.h"
#include "engine/store/remote_rows.h"
#include "engine/strategy/strategy.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

/// The parts of the process that all jobs share, and the count of running jobs.

namespace hearth::job {

/// Counts the jobs that run in this process: numbers of the whole process
/// (/proc/self/io) are attributed to a job only if it ran alone. Thread-safe.
class RunningJobs {
 public:
  /// A running job; counted until it is destroyed.
  class Job {
   public:
    explicit Job(RunningJobs& jobs);
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

   private:
    RunningJobs& jobs_;
  };

  /// A point in time, for AloneSince.
  struct Moment {
    int running;
    uint64_t started;
  };
  Moment Now() const;

  /// Whether exactly one job ran all the time since `moment`.
  bool AloneSince(const Moment& moment) const;

 private:
  mutable absl::Mutex mutex_;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of jobs that ever began.
  uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
};

class SharedPassGroups;
struct Ranks;

/// Makes the model of a job. The daemon uses model::NewTrainStep.
using TrainStepFactory =
    std::function<absl::StatusOr<std::unique_ptr<train::TrainStep>>(
        const train::TrainOptions& options, const train::ModelShape& shape)>;

/// Parts of the process that jobs use; all outlive the jobs.
struct JobEnvironment {
  io::FileSystem& files;
  /// Queues that stay warm between jobs.
  io::ReadQueues& read_queues;
  const Clock& clock;
  RunningJobs& running_jobs;
  /// Memory reservations of all jobs.
  MemoryLedger& memory;
  WarmStrategies& warm_strategies;
  BatchMeasurement& batch_measurement;
  /// Plans that strategies prepare, shared by all jobs.
  plan::PlanStore& plans;
  /// Plan stores on disks of their own (StrategyResources::data_disks).
  absl::Span<plan::PlanStore* const> data_disks = {};
  TrainStepFactory new_train_step;
  /// The GPU whose memory may keep rows, if there is one.
  strategy::Gpu gpu = {};
  /// All GPUs, indexed by their numbers.
  std::vector<cuda::Device> gpus = {};
  /// Dataset files that need no further verification; null = each job verifies
  /// its files.
  store::VerificationRecord* verified = nullptr;
  /// Groups through which train jobs share passes; null = each job runs alone.
  SharedPassGroups* shared_passes = nullptr;
  /// The machines that train this job together; null = this one alone. A job
  /// with some shares passes only with jobs of equal ranks.
  const Ranks* ranks = nullptr;
  /// Rows that the dataset of a job lacks here, on the other machines that
  /// train it; null = shards of datasets cannot be trained on.
  std::shared_ptr<store::RemoteRows> remote_rows = nullptr;
  /// Profiles of disks; null: prices are for a common disk.
  machine::DiskProfiles* disks = nullptr;
};

/// The profile of the disk with the features of `dataset`, measured now if the
/// kept one is not younger than `fresh`, no other job runs and there is memory
/// for it; DiskProfile::Assumed without JobEnvironment::disks. Errors as
/// machine::DiskProfiles::Find.
absl::StatusOr<machine::DiskProfile> ProfileOf(
    const JobEnvironment& environment, const store::Dataset& dataset,
    std::stop_token stop, absl::Duration fresh = machine::kFreshProfile);

/// Tells JobEnvironment::disks, if there are any, at how many bytes per second
/// the features of `dataset` were scanned.
void NoteScan(const JobEnvironment& environment, const store::Dataset& dataset,
              double bytes_per_second);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_INTERFACE_JOB_ENVIRONMENT_H_
