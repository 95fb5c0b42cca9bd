#ifndef HEARTH_ENGINE_JOB_DATA_OPENED_JOB_H_
#define HEARTH_ENGINE_JOB_DATA_OPENED_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/job/data/passes.h"
#include "engine/job/data/row_copy.h"
#include "engine/job/data/seed_partition.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/pass.h"
#include "engine/train/train_step.h"

/// The data of a job, opened, and the model for it. OpenJob reads as its steps:
/// dataset, labels, split, partition, passes, history.

namespace hearth::job {

/// The opened data of a job.
struct OpenedJob {
  /// Memory of the labels and splits opened here. Given back when all of the
  /// job's memory is reserved, which includes the part of them that the
  /// strategy holds.
  MemoryLedger::Reservation memory;
  std::unique_ptr<store::Dataset> dataset;
  /// The copy of the features that `dataset` reads; absent if it reads its own.
  std::optional<RowCopy> rows;
  store::Labels labels;
  /// Partition that orders the seeds; absent if they are shuffled.
  std::optional<SeedPartition> partition;
  PassSchedule passes;
  /// The options that the job was opened with, less what its history has taken:
  /// memory of the strategy's cache, or without `history` if no embedding is
  /// kept.
  BatchOptions data;
  /// History of the training passes; absent without one.
  std::optional<HistoryChoice> history;

  const SeedPartition* PartitionOrNull() const {
    return partition.has_value() ? &*partition : nullptr;
  }
};

/// Arguments of OpenJob.
struct OpenJobOptions {
  const BatchOptions& data;
  const strategy::PipelineOptions& pipeline;
  /// Whether nothing is validated or tested.
  bool training_only = false;
  /// Whether no rows will be read: the dataset is then as if its features had
  /// been copied (store::AsIfConverted).
  bool forecast_only = false;
  /// Width of the model's embeddings (train::HiddenWidth), in numbers.
  int64_t embedding_width = 0;
  /// The job's own folder, which keeps the choices of its history and of its
  /// strategy; may be empty.
  std::string folder = {};
  /// The job that is priced where the strategy is to be chosen; null for jobs
  /// whose strategy is never taken.
  const TrainJobOptions* job = nullptr;
};

/// Opens the dataset that the options name, finds or makes the partition that
/// orders its seeds, and chooses the embeddings of the history. `observer`
/// hears of warnings about the split. Errors as store::Dataset::Open,
/// CheckTrainable, ConvertRows, MemoryLedger::Reserve, WithoutUnlabeled,
/// OpenPartition and ChooseHistory.
absl::StatusOr<OpenedJob> OpenJob(const JobEnvironment& environment,
                                  const OpenJobOptions& options,
                                  Observer& observer, std::stop_token stop);

/// Makes the model of a job on `dataset`, which CheckTrainable accepts;
/// `passes` give the number of steps of an epoch. Errors as
/// JobEnvironment::new_train_step.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewModel(
    const JobEnvironment& environment, const TrainJobOptions& options,
    const store::Dataset& dataset, const PassSchedule& passes);

/// Upper bound of the bytes of the dataset's self loops, for a model that
/// counts them; 0 for other models.
uint64_t SelfLoopBytes(const TrainJobOptions& options,
                       const store::Dataset& dataset);

/// Bytes of the scores that the job's metric ranks at a time: scores of the
/// validation nodes or of the test nodes, whichever are more. 0 for metrics
/// that rank nothing.
uint64_t RankingBytes(const TrainJobOptions& options,
                      const store::Dataset& dataset,
                      const PassSchedule& passes);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_OPENED_JOB_H_
