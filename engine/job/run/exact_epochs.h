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

/// Results of the first epochs of a job, trained without what they are compared
/// for: a history, or order locality.
struct ExactEpochs {
  std::vector<ExactEpoch> epochs;
  /// Whether this run of the job trained some of them. The fields below are set
  /// only then.
  bool trained = false;
  /// Seconds from the start to the first batch.
  std::optional<double> first_batch_seconds;
  /// Upper bound of the memory that training them took, in bytes.
  uint64_t memory_bytes = 0;
  /// Partition that orders the seeds, found or made for these epochs; absent if
  /// the seeds are shuffled.
  std::optional<strategy::PreparationReport> partition;

  /// Adds what the job's report owes to these epochs: the bound of their memory
  /// and, if this run trained them, the first batch and the partition, which
  /// the job itself has only found.
  void AddTo(TrainReport& report) const;
};

/// Trains the first `compare_epochs` epochs of the history in `job.options`, if
/// any are to be compared, without it, from the same weights, on the same
/// batches and with the same dropout as the job, as a job without a history
/// would. Checkpoints and results are in the folder "exact" of the job's
/// folder; at the end only the results stay there, and a later run of the job
/// only reads them. The observer hears of the phase "comparing". Errors as
/// RunTrainJob; INVALID_ARGUMENT without validation nodes, or if the history's
/// memory holds no embedding (CheckHistoryMemory).
absl::StatusOr<ExactEpochs> TrainExactEpochs(const ModelTrainer::Job& job,
                                             std::stop_token stop);

/// Trains the first `epochs` epochs of a job of order locality in shuffled
/// order, as TrainExactEpochs does, in the folder "pilot". Batches of later
/// epochs are not prepared. INVALID_ARGUMENT without validation nodes.
/// REQUIRES: epochs <= job.options.data.epochs.
absl::StatusOr<ExactEpochs> TrainShuffledPilot(const ModelTrainer::Job& job,
                                               int64_t epochs,
                                               std::stop_token stop);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_EXACT_EPOCHS_H_
