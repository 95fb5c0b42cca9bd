#ifndef HEARTH_ENGINE_JOB_JOB_PROFILE_H_
#define HEARTH_ENGINE_JOB_JOB_PROFILE_H_

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/job/history_basis.h"
#include "engine/job/job_environment.h"
#include "engine/job/observer.h"
#include "engine/sample/epoch_profile.h"

namespace hearth::job {

/// The profile of a job's training, and the plan that keeps it.
struct JobProfile {
  std::string plan;
  sample::EpochProfile profile;
};

/// Finds the profile of the first training pass in the plan store, or samples
/// all of its batches without a history and keeps it there (OUTRE's profiling
/// epoch, section 4.4), and some in shuffled order to compare with. It depends
/// on the dataset, the batches and on which neighbor lists the strategy keeps
/// in memory; not on models. The caller reserves sample::EpochProfileBytes for
/// what it gives; sampling reserves its own. Errors of
/// BatchMeasurement::Measure, MemoryLedger::Reserve,
/// strategy::FindResidentLists, sampling and FindOrMakePlan.
absl::StatusOr<JobProfile> OpenProfile(const JobEnvironment& environment,
                                       const HistoryBasis& basis,
                                       Observer& observer,
                                       const std::stop_token& stop);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_JOB_PROFILE_H_
