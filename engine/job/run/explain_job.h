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

/// Foretells what a train job with `options` would read, take and hold, without
/// running it: batches are sampled, all of them or, of more than
/// `most_batches`, as many that are spread evenly; a few training steps are
/// timed; the strategy tells what it can (strategy::MakeForecast). Leaves no
/// file but the measurement of the largest batch (batch_measurement.h), where
/// the job would make one.
///
/// Errors as RunTrainJob has until it trains, but that of a job that needs more
/// memory than there may be: that is in the notes.
absl::StatusOr<ExplainReport> RunExplainJob(const JobEnvironment& environment,
                                            const TrainJobOptions& options,
                                            Observer& observer,
                                            std::stop_token stop,
                                            int64_t most_batches = 512);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_EXPLAIN_JOB_H_
