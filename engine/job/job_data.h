#ifndef HEARTH_ENGINE_JOB_JOB_DATA_H_
#define HEARTH_ENGINE_JOB_JOB_DATA_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/job/job_environment.h"
#include "engine/job/job_passes.h"
#include "engine/job/observer.h"
#include "engine/job/train_job_options.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// The opened data of a job.
struct JobData {
  std::unique_ptr<store::Dataset> dataset;
  store::Labels labels;
  JobPasses passes;
};

/// Opens the dataset that the options name; `observer` hears what is odd about
/// its split. Errors as store::Dataset::Open, CheckTrainable and
/// JobPasses::Make.
absl::StatusOr<JobData> OpenJobData(const JobEnvironment& environment,
                                    const JobPasses::Options& options,
                                    Observer& observer);

/// The model of a job on `dataset`, which CheckTrainable accepts; `passes` tell
/// how many steps an epoch has. Errors as JobEnvironment::new_train_step.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewModel(
    const JobEnvironment& environment, const TrainJobOptions& options,
    const store::Dataset& dataset, const JobPasses& passes);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_JOB_DATA_H_
