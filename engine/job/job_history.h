#ifndef HEARTH_ENGINE_JOB_JOB_HISTORY_H_
#define HEARTH_ENGINE_JOB_JOB_HISTORY_H_

#include <cstdint>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/job/job_environment.h"
#include "engine/job/job_passes.h"
#include "engine/job/observer.h"
#include "engine/job/train_job_options.h"
#include "engine/sample/history.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"

namespace hearth::job {

/// The data of a job whose training passes are to have a history.
struct HistoryBasis {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const JobPasses& passes;
  const DataOptions& data;
  /// Width of an embedding; 0 without a model.
  int64_t embedding_width = 0;
  /// Threads that sample.
  int samplers = 1;
};

/// Chooses the nodes whose embeddings are kept, as many as `basis.data.history`
/// has memory for: those whose neighborhoods take most reading in the batches
/// of the first training pass, all of which are sampled for it (OUTRE, section
/// 4.4). INVALID_ARGUMENT, with the numbers, if there is no memory for a single
/// one; errors of BatchMeasurement::Measure, MemoryLedger::Reserve and
/// sampling; CANCELLED when a stop is requested.
absl::StatusOr<std::shared_ptr<const sample::HistoryPolicy>> MakeHistory(
    const JobEnvironment& environment, const HistoryBasis& basis,
    Observer& observer, std::stop_token stop);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_JOB_HISTORY_H_
