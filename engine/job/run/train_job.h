#ifndef HEARTH_ENGINE_JOB_RUN_TRAIN_JOB_H_
#define HEARTH_ENGINE_JOB_RUN_TRAIN_JOB_H_

#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"

/// Entry points of the jobs that train and that prepare for training. The
/// options and errors of both are those of the dataset, the strategy and the
/// model; each call blocks until its job is done, on the thread that uses the
/// model.

namespace hearth::job {

/// Trains a model, from the checkpoint in options.directory if there is one, or
/// does the part of a job that options.part names. Blocks until done. When
/// `stop` is requested, writes a checkpoint at the next batch boundary and
/// returns CANCELLED. Other errors are errors of opening the dataset, of
/// reading, and of the model; RESOURCE_EXHAUSTED if memory does not suffice,
/// with the numbers, as MemoryLedger::Reserve.
absl::StatusOr<TrainReport> RunTrainJob(const JobEnvironment& environment,
                                        const TrainJobOptions& options,
                                        Observer& observer,
                                        TrainMetrics& metrics,
                                        std::stop_token stop);

/// Options of a prepare job. See hearth.v1.PrepareSpec.
struct PrepareJobOptions {
  BatchOptions data;
  /// Numbers of threads of the pipeline's stages; they change no result.
  strategy::PipelineOptions pipeline;
  /// Whether to prepare for jobs that neither validate nor test.
  bool training_only = false;
  /// Whether to make only the partition that orders the seeds.
  bool partition_only = false;
  /// Width of the embeddings of the job's model (train::HiddenWidth), for a
  /// history.
  int64_t embedding_width = 0;
  /// The folder of pieces that the plan is joined from; empty: it is made here.
  /// See strategy::DiskgnnOptions.
  std::string pieces_folder = {};
  int64_t num_pieces = 0;
};

/// Prepares for a train job with the same data: makes the partition that orders
/// its seeds, if one does, and the strategy's plan; the strategy stays warm.
/// INVALID_ARGUMENT for pieces of another strategy than `diskgnn`, or of rows
/// or samples that are not the dataset's alone.
/// FAILED_PRECONDITION if there is nothing to make. Other errors are the errors
/// of RunTrainJob before it trains.
absl::StatusOr<PrepareReport> RunPrepareJob(const JobEnvironment& environment,
                                            const PrepareJobOptions& options,
                                            Observer& observer,
                                            std::stop_token stop);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_TRAIN_JOB_H_
