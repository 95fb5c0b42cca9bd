#ifndef HEARTH_ENGINE_JOB_TRAIN_JOB_H_
#define HEARTH_ENGINE_JOB_TRAIN_JOB_H_

#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/job/job_environment.h"
#include "engine/job/observer.h"
#include "engine/job/report.h"
#include "engine/job/train_job_options.h"
#include "engine/job/train_metrics.h"

namespace hearth::job {

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

#endif  // HEARTH_ENGINE_JOB_TRAIN_JOB_H_
