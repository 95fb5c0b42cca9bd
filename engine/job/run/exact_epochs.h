#ifndef HEARTH_ENGINE_JOB_RUN_EXACT_EPOCHS_H_
#define HEARTH_ENGINE_JOB_RUN_EXACT_EPOCHS_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/job/interface/report.h"
#include "engine/job/run/model_trainer.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// Results of the first epochs of a job with a history, trained without it.
struct ExactEpochs {
  std::vector<ExactEpoch> epochs;
  /// Whether some of them were trained in this run of the job. If so:
  bool trained = false;
  /// Seconds to the first batch of all.
  std::optional<double> first_batch_seconds;
  /// Upper bound of the memory that training them took.
  uint64_t memory_bytes = 0;
  /// The partition that orders the seeds, as it was found or made for them;
  /// absent if none does.
  std::optional<strategy::PreparationReport> partition;
};

/// Trains the first `compare_epochs` epochs of the history in `job.options`
/// without it, from the same weights, on the same batches and with the same
/// dropout as the job: as a job without a history would, with checkpoints of
/// its own in the folder "exact" of the job's. Nothing of it is left but the
/// result, which is kept there, so that a later run of the job only reads it.
/// The observer hears of it as of the phase "comparing". Errors as RunTrainJob;
/// INVALID_ARGUMENT without validation nodes, or if the history has no room
/// (CheckHistoryMemory).
absl::StatusOr<ExactEpochs> TrainExactEpochs(const ModelTrainer::Job& job,
                                             std::stop_token stop);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_EXACT_EPOCHS_H_
