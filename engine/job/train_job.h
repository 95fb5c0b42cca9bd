#ifndef HEARTH_ENGINE_JOB_TRAIN_JOB_H_
#define HEARTH_ENGINE_JOB_TRAIN_JOB_H_

#include <functional>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"
#include "engine/job/census.h"
#include "engine/job/observer.h"
#include "engine/job/report.h"
#include "engine/job/train_job_options.h"
#include "engine/job/train_metrics.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// Makes the model of a job; model::NewTrainStep in the daemon.
using TrainStepFactory =
    std::function<absl::StatusOr<std::unique_ptr<train::TrainStep>>(
        const train::TrainOptions& options, const train::ModelShape& shape)>;

/// What a job needs of its surroundings; all must outlive it.
struct JobEnvironment {
  io::FileSystem& files;
  /// Kept warm between jobs.
  io::ReadQueues& read_queues;
  const Clock& clock;
  Census& census;
  TrainStepFactory new_train_step;
};

/// Trains, from the checkpoint in options.directory if there is one. Blocks
/// until done. When `stop` is requested: writes a checkpoint at the next batch
/// boundary and returns CANCELLED. Other errors are those of opening the
/// dataset, of reading, and of the model; RESOURCE_EXHAUSTED if memory does
/// not suffice, with the numbers.
absl::StatusOr<TrainReport> RunTrainJob(const JobEnvironment& environment,
                                        const TrainJobOptions& options,
                                        Observer& observer,
                                        TrainMetrics& metrics,
                                        std::stop_token stop);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_TRAIN_JOB_H_
