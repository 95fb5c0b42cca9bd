#ifndef HEARTH_ENGINE_JOB_TRAIN_JOB_H_
#define HEARTH_ENGINE_JOB_TRAIN_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/job/census.h"
#include "engine/job/observer.h"
#include "engine/job/report.h"
#include "engine/job/train_metrics.h"
#include "engine/strategy/strategy.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// Which batches a train job reads. See hearth.v1.DataSpec.
struct DataOptions {
  /// The dataset's folder.
  std::string dataset_path;
  std::vector<int32_t> fanouts = {10, 10, 10};
  int64_t batch_size = 1024;
  int64_t epochs = 5;
  /// 0 = epochs.
  int64_t distinct_epochs = 0;
  uint64_t data_seed = 0;
  strategy::StrategyOptions strategy;
};

/// A train job, whole. See hearth.v1.TrainJobSpec.
struct TrainJobOptions {
  DataOptions data;
  train::TrainOptions train;
  /// Threads of the pipeline's stages; change no result.
  strategy::PipelineOptions pipeline;
  /// Epochs without a better validation accuracy before stopping; 0 = never.
  int64_t patience = 0;
  /// Batches between checkpoints; 0 = only at the end of each epoch.
  int64_t checkpoint_every = 0;
  /// The job's own folder, made if absent: holds the checkpoint and, at the
  /// end, the model.
  std::string directory;

  /// INVALID_ARGUMENT naming the option at fault.
  absl::Status Validate() const;
};

/// Makes the model of a job; model::NewTrainStep in the daemon.
using TrainStepFactory =
    std::function<absl::StatusOr<std::unique_ptr<train::TrainStep>>(
        const train::TrainOptions& options, const train::ModelShape& shape)>;

/// What a job needs of its surroundings; all must outlive it.
struct JobEnvironment {
  io::FileSystem& files;
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
