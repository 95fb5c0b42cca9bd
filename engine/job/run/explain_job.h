#ifndef HEARTH_ENGINE_JOB_RUN_EXPLAIN_JOB_H_
#define HEARTH_ENGINE_JOB_RUN_EXPLAIN_JOB_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"

namespace hearth::job {

/// Forecasts what a train job with `options` would read, take and hold, without
/// running it: samples all batches of an epoch, or `most_batches` spread evenly
/// over it; times a few training steps; asks the strategy for the rest
/// (strategy::MakeForecast). Writes no file except the measurement of the
/// largest batch (batch_measurement.h), where the job would write one.
///
/// Errors are the errors of RunTrainJob before it trains, except that a job
/// which needs more memory than the limit gets a note in the report.
absl::StatusOr<ExplainReport> RunExplainJob(const JobEnvironment& environment,
                                            const TrainJobOptions& options,
                                            Observer& observer,
                                            std::stop_token stop,
                                            int64_t most_batches = 512);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_EXPLAIN_JOB_H_
