#ifndef HEARTH_ENGINE_JOB_TRAIN_ALONE_H_
#define HEARTH_ENGINE_JOB_TRAIN_ALONE_H_

#include "absl/status/statusor.h"
#include "engine/job/data_run.h"
#include "engine/job/job_environment.h"
#include "engine/job/report.h"
#include "engine/job/train_run.h"

namespace hearth::job {

/// Trains one member from a data run of its own (TrainRun), all on the caller's
/// thread. CANCELLED when the rider or the data run was asked to stop: the
/// member has then written a checkpoint.
absl::StatusOr<TrainReport> TrainAlone(const JobEnvironment& environment,
                                       DataRun& data, Rider rider);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_TRAIN_ALONE_H_
