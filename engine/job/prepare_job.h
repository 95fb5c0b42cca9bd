#ifndef HEARTH_ENGINE_JOB_PREPARE_JOB_H_
#define HEARTH_ENGINE_JOB_PREPARE_JOB_H_

#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/job/job_environment.h"
#include "engine/job/observer.h"
#include "engine/job/report.h"
#include "engine/job/train_job_options.h"

namespace hearth::job {

/// A prepare job, whole. See hearth.v1.PrepareSpec.
struct PrepareJobOptions {
  DataOptions data;
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

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_PREPARE_JOB_H_
