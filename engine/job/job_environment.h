#ifndef HEARTH_ENGINE_JOB_JOB_ENVIRONMENT_H_
#define HEARTH_ENGINE_JOB_JOB_ENVIRONMENT_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cuda/device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"
#include "engine/job/batch_measurement.h"
#include "engine/job/memory_ledger.h"
#include "engine/job/running_jobs.h"
#include "engine/job/warm_strategies.h"
#include "engine/plan/plan_store.h"
#include "engine/store/verification_record.h"
#include "engine/strategy/strategy.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::job {

class Convoys;

/// Makes the model of a job; model::NewTrainStep in the daemon.
using TrainStepFactory =
    std::function<absl::StatusOr<std::unique_ptr<train::TrainStep>>(
        const train::TrainOptions& options, const train::ModelShape& shape)>;

/// The parts of the process that jobs use; all must outlive them.
struct JobEnvironment {
  io::FileSystem& files;
  /// Queues that stay warm between jobs.
  io::ReadQueues& read_queues;
  const Clock& clock;
  RunningJobs& running_jobs;
  /// Reservations of memory of all jobs.
  MemoryLedger& memory;
  WarmStrategies& warm_strategies;
  BatchMeasurement& batch_measurement;
  /// Plans that strategies prepare, for all jobs that can use them.
  plan::PlanStore& plans;
  /// Stores of plans on disks of their own (StrategyResources::data_disks).
  absl::Span<plan::PlanStore* const> data_disks = {};
  TrainStepFactory new_train_step;
  /// The GPU whose memory may keep rows, if there is one.
  strategy::Gpu gpu = {};
  /// All GPUs, by their numbers.
  std::vector<cuda::Device> gpus = {};
  /// Files of datasets that no job has to verify again; null = each does.
  store::VerificationRecord* verified = nullptr;
  /// Through which train jobs share passes; null = each runs alone.
  Convoys* convoys = nullptr;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_JOB_ENVIRONMENT_H_
