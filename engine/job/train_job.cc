// A train job, step by step:
//   1. where a history is to be compared, train the first epochs without it
//      (exact_epochs.h), unless an earlier run of the job has;
//   2. if it may share its passes, join those with equal data (convoys.h);
//      else open the data (DataRun), make the model and go on from the
//      checkpoint if there is one (Member), feed the one from the other
//      (TrainRun);
//   3. report.
#include "engine/job/train_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/job/convoys.h"
#include "engine/job/data_run.h"
#include "engine/job/exact_epochs.h"
#include "engine/job/member.h"
#include "engine/job/memory_sampler.h"
#include "engine/job/train_alone.h"
#include "engine/train/model_options.h"

namespace hearth::job {

namespace {

// Trains from a data run of the job's own. `is_running`: whether the observer
// has heard so.
absl::StatusOr<TrainReport> TrainWithOwnData(const Member::Parts& parts,
                                             bool is_running, double begin,
                                             std::stop_token stop) {
  const TrainJobOptions& options = parts.options;
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<DataRun> data,
      DataRun::Open(parts.environment,
                    {.data = options.data,
                     .pipeline = options.pipeline,
                     .training_only = !options.HasModel(),
                     .embedding_width = train::HiddenWidth(options.train.model),
                     .folder = options.directory},
                    parts.observer, stop));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<Member> member,
                          Member::Make(parts, data->dataset(), data->passes()));
  absl::StatusOr<TrainReport> report = TrainAlone(parts.environment, *data,
                                                  {.options = options,
                                                   .observer = parts.observer,
                                                   .metrics = parts.metrics,
                                                   .member = *member,
                                                   .stop = std::move(stop),
                                                   .begin_seconds = begin,
                                                   .is_running = is_running});
  if (report.ok() || absl::IsCancelled(report.status())) {
    data->ReturnStrategy();
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
  Member::Parts parts = {.environment = environment,
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
  if (environment.convoys != nullptr && !options.convoy.empty() &&
      options.data.CanShare()) {
    report = environment.convoys->Take({.environment = environment,
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
