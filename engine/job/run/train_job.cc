#include "engine/job/run/train_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status.h"
#include "engine/job/data/batch_source.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/exact_epochs.h"
#include "engine/job/run/model_trainer.h"
#include "engine/job/run/shared_pass.h"
#include "engine/job/run/train_run.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/kinds.h"
#include "engine/train/model_options.h"

namespace hearth::job {

absl::StatusOr<PrepareReport> RunPrepareJob(const JobEnvironment& environment,
                                            const PrepareJobOptions& options,
                                            Observer& observer,
                                            std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(options.data.Validate());
  HEARTH_RETURN_IF_ERROR(options.pipeline.Validate());
  const std::unique_ptr<MemorySampler> memory = NewMemorySampler();
  const uint64_t base_memory_bytes = memory->PeakBytes();
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<BatchSource> source,
      BatchSource::Open(environment,
                        {.data = options.data,
                         .pipeline = options.pipeline,
                         .training_only = options.training_only,
                         .embedding_width = options.embedding_width},
                        observer, std::move(stop)));
  PrepareReport report;
  report.partition = source->partition();
  if (options.partition_only ||
      !strategy::KindOf(options.data.strategy).makes_plans) {
    observer.OnRunning();
    report.peak_memory_bytes = memory->PeakBytes();
    report.memory = source->partitioning_memory();
    report.memory_bound_bytes = base_memory_bytes + report.memory.TotalBytes();
    return report;
  }
  HEARTH_RETURN_IF_ERROR(source->TakeStrategy(
      {.bytes = [](const sample::BatchShape&) { return uint64_t{0}; }}));
  observer.OnRunning();
  HEARTH_ASSIGN_OR_RETURN(report.preparation, source->PreparePeriod(0));
  report.peak_memory_bytes = memory->PeakBytes();
  report.memory = source->memory();
  report.cuts = source->cuts();
  report.memory_limit_bytes = environment.memory.most_bytes();
  report.memory_bound_bytes =
      base_memory_bytes + std::max(report.memory.TotalBytes(),
                                   source->partitioning_memory().TotalBytes());
  source->ReturnStrategy();
  return report;
}

// A train job, step by step:
//   1. where a history is to be compared, train the first epochs without it
//      (exact_epochs.h), unless an earlier run of the job has;
//   2. if it may share its passes, join those with equal data (shared_pass.h);
//      else open the data (BatchSource), make the model and go on from the
//      checkpoint if there is one (ModelTrainer), feed the one from the other
//      (TrainRun);
//   3. report.

namespace {

// Trains from a data run of the job's own. `is_running`: whether the observer
// has heard so.
absl::StatusOr<TrainReport> TrainWithOwnData(const ModelTrainer::Job& parts,
                                             bool is_running, double begin,
                                             std::stop_token stop) {
  const TrainJobOptions& options = parts.options;
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<BatchSource> source,
      BatchSource::Open(
          parts.environment,
          {.data = options.data,
           .pipeline = options.pipeline,
           .training_only = !options.HasModel(),
           .embedding_width = train::HiddenWidth(options.train.model),
           .folder = options.directory},
          parts.observer, stop));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ModelTrainer> trainer,
      ModelTrainer::Make(parts, source->dataset(), source->passes()));
  absl::StatusOr<TrainReport> report = TrainAlone(parts.environment, *source,
                                                  {.options = options,
                                                   .observer = parts.observer,
                                                   .metrics = parts.metrics,
                                                   .trainer = *trainer,
                                                   .stop = std::move(stop),
                                                   .begin_seconds = begin,
                                                   .is_running = is_running});
  if (report.ok() || absl::IsCancelled(report.status())) {
    source->ReturnStrategy();
  }
  return report;
}

}  // namespace

absl::StatusOr<TrainReport> RunTrainJob(const JobEnvironment& environment,
                                        const TrainJobOptions& options,
                                        Observer& observer,
                                        TrainMetrics& metrics,
                                        std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  const std::unique_ptr<MemorySampler> memory = NewMemorySampler();
  const uint64_t base_memory_bytes = memory->PeakBytes();
  if (options.part != TrainPart::kTest) {
    HEARTH_RETURN_IF_ERROR(
        environment.files.CreateDirectory(options.directory));
  }
  ModelTrainer::Job parts = {.environment = environment,
                             .options = options,
                             .observer = observer,
                             .metrics = metrics,
                             .memory = *memory};
  ExactEpochs exact;
  if (options.data.history.has_value() &&
      options.data.history->compare_epochs > 0) {
    HEARTH_ASSIGN_OR_RETURN(exact, TrainExactEpochs(parts, stop));
    parts.exact = exact.epochs;
  }
  const double begin = environment.clock.SteadySeconds();
  absl::StatusOr<TrainReport> report;
  if (environment.shared_passes != nullptr && !options.sharing_key.empty() &&
      options.data.CanShare()) {
    report = environment.shared_passes->Train({.environment = environment,
                                               .options = options,
                                               .observer = observer,
                                               .metrics = metrics,
                                               .memory = *memory,
                                               .stop = std::move(stop),
                                               .begin_seconds = begin});
  } else {
    report = TrainWithOwnData(parts, exact.trained, begin, std::move(stop));
  }
  HEARTH_RETURN_IF_ERROR(report.status());
  report->memory_bound_bytes =
      base_memory_bytes +
      std::max(report->memory_bound_bytes, exact.memory_bytes);
  if (exact.trained) {
    report->first_batch_seconds = exact.first_batch_seconds;
    // The job itself has only found what was made for these.
    report->partition = std::move(exact.partition);
  }
  return report;
}

}  // namespace hearth::job
