#ifndef HEARTH_ENGINE_JOB_DATA_LOCALITY_H_
#define HEARTH_ENGINE_JOB_DATA_LOCALITY_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/strategy.h"

/// Order locality: the partition order whose macro batches are as small as the
/// labels of batches allow.

namespace hearth::job {

/// The order that ChooseLocality has chosen.
struct ChosenLocality {
  /// Without what a guard finds.
  LocalityChoice choice;
  /// The partition, found or made.
  strategy::PreparationReport partition;
  /// Upper bound of the memory that choosing took, in bytes.
  uint64_t memory_bytes = 0;
};

/// Finds or makes the partition of the default parts (PartitionOrder), and
/// chooses the least number of parts of a macro batch with which the labels of
/// batches are nearly those of shuffled batches (sample::ChooseMacroBatch).
/// Equal datasets and options give equal choices. INVALID_ARGUMENT for labels
/// that are targets, of which no distance is defined. Other errors as OpenJob.
absl::StatusOr<ChosenLocality> ChooseLocality(
    const JobEnvironment& environment, const BatchOptions& data,
    const strategy::PipelineOptions& pipeline, Observer& observer,
    std::stop_token stop);

/// `data`, whose order is locality, with the chosen order in its place, or
/// `shuffled`.
BatchOptions InChosenOrder(BatchOptions data, const LocalityChoice& choice,
                           bool shuffled = false);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_LOCALITY_H_
