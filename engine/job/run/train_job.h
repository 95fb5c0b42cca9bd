#ifndef HEARTH_ENGINE_JOB_RUN_TRAIN_JOB_H_
#define HEARTH_ENGINE_JOB_RUN_TRAIN_JOB_H_

#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"

namespace hearth::job {

/// A prepare job, whole. See hearth.v1.PrepareSpec.
struct PrepareJobOptions {
  BatchOptions data;
  /// Threads of the pipeline's stages; change no result.
  strategy::PipelineOptions pipeline;
  /// Whether it is for jobs that neither validate nor test.
  bool training_only = false;
  /// Whether only the partition is made that orders the seeds.
  bool partition_only = false;
  /// Width of the embeddings of the job's model (train::HiddenWidth), for a
  /// history.
  int64_t embedding_width = 0;
};

/// Prepares for a train job with the same data: makes the partition that orders
/// its seeds, if one does, and the strategy's plan; the strategy stays warm.
/// FAILED_PRECONDITION if there is nothing to make. Errors as RunTrainJob has
/// until it trains.
absl::StatusOr<PrepareReport> RunPrepareJob(const JobEnvironment& environment,
                                            const PrepareJobOptions& options,
                                            Observer& observer,
                                            std::stop_token stop);

/// Trains a model, from the checkpoint in options.directory if there is one, or
/// does the part of it that the options say. Blocks until done. When `stop` is
/// requested, writes a checkpoint at the next batch boundary and returns
/// CANCELLED. Other errors are those of opening the dataset, of reading, and of
/// the model; RESOURCE_EXHAUSTED if memory does not suffice, with the numbers,
/// as MemoryLedger::Reserve.
absl::StatusOr<TrainReport> RunTrainJob(const JobEnvironment& environment,
                                        const TrainJobOptions& options,
                                        Observer& observer,
                                        TrainMetrics& metrics,
                                        std::stop_token stop);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_TRAIN_JOB_H_
