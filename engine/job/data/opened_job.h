#ifndef HEARTH_ENGINE_JOB_DATA_OPENED_JOB_H_
#define HEARTH_ENGINE_JOB_DATA_OPENED_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "engine/job/data/passes.h"
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

namespace hearth::job {

/// The opened data of a job.
struct OpenedJob {
  /// For what is opened here, labels and splits: to be given back when all of
  /// the job's memory is reserved, with what the strategy then holds of them.
  MemoryLedger::Reservation memory;
  std::unique_ptr<store::Dataset> dataset;
  store::Labels labels;
  /// The partition that orders the seeds, if one does.
  std::optional<SeedPartition> partition;
  PassSchedule passes;
  /// The options that it was opened with, but for what its history has taken:
  /// memory of the strategy's cache, or none where no embedding is kept.
  BatchOptions data;
  /// History that the training passes are to have; absent without one.
  std::optional<HistoryChoice> history;

  const SeedPartition* PartitionOrNull() const {
    return partition.has_value() ? &*partition : nullptr;
  }
};

/// The data that a job opens.
struct OpenJobOptions {
  const BatchOptions& data;
  const strategy::PipelineOptions& pipeline;
  /// Nothing is validated or tested.
  bool training_only = false;
  /// Width of the model's embeddings (train::HiddenWidth).
  int64_t embedding_width = 0;
  /// The job's own folder, which keeps the choice of its history; may be empty.
  std::string folder = {};
};

/// Opens the dataset that the options name, finds or makes the partition that
/// orders its seeds, and chooses what a history keeps; `observer` hears what is
/// odd about its split. Errors as store::Dataset::Open, CheckTrainable,
/// MemoryLedger::Reserve, WithoutUnlabeled, OpenPartition and ChooseHistory.
absl::StatusOr<OpenedJob> OpenJob(const JobEnvironment& environment,
                                  const OpenJobOptions& options,
                                  Observer& observer, std::stop_token stop);

/// The model of a job on `dataset`, which CheckTrainable accepts; `passes` tell
/// how many steps an epoch has. Errors as JobEnvironment::new_train_step.
absl::StatusOr<std::unique_ptr<train::TrainStep>> NewModel(
    const JobEnvironment& environment, const TrainJobOptions& options,
    const store::Dataset& dataset, const PassSchedule& passes);

/// The most that the dataset's self loops take in memory, for a model that
/// counts them; 0 for others.
uint64_t SelfLoopBytes(const TrainJobOptions& options,
                       const store::Dataset& dataset);

/// The bytes of the scores that the job's metric ranks at a time: those of the
/// validation nodes or of the test nodes. 0 for metrics that rank nothing.
uint64_t RankingBytes(const TrainJobOptions& options,
                      const store::Dataset& dataset,
                      const PassSchedule& passes);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_OPENED_JOB_H_
