// A train job, step by step:
//   1. where a history is to be compared, train the first epochs without it
//      (exact_epochs.h), unless an earlier run of the job has;
//   2. open the data (DataRun), make the model and go on from the checkpoint if
//      there is one (Member);
//   3. feed the one from the other (TrainRun), and report.
#include "engine/job/train_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/job/data_run.h"
#include "engine/job/exact_epochs.h"
#include "engine/job/member.h"
#include "engine/job/memory_sampler.h"
#include "engine/job/train_run.h"
#include "engine/train/model_options.h"

namespace hearth::job {

absl::StatusOr<TrainReport> RunTrainJob(const JobEnvironment& environment,
                                        const TrainJobOptions& options,
                                        Observer& observer,
                                        TrainMetrics& metrics,
                                        std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  const std::unique_ptr<MemorySampler> memory = NewMemorySampler();
  const uint64_t base_memory_bytes = memory->PeakBytes();
  HEARTH_RETURN_IF_ERROR(environment.files.CreateDirectory(options.directory));
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
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<DataRun> data,
      DataRun::Open(environment,
                    {.data = options.data,
                     .pipeline = options.pipeline,
                     .training_only = !options.HasModel(),
                     .embedding_width = train::HiddenWidth(options.train.model),
                     .folder = options.directory},
                    observer, std::move(stop)));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<Member> member,
                          Member::Make(parts, data->dataset(), data->passes()));
  HEARTH_ASSIGN_OR_RETURN(TrainReport report,
                          TrainRun({.options = options,
                                    .observer = observer,
                                    .metrics = metrics,
                                    .data = *data,
                                    .member = *member,
                                    .is_running = exact.trained})
                              .Run());
  report.memory_bound_bytes =
      base_memory_bytes +
      std::max({report.memory.TotalBytes(),
                data->partitioning_memory().TotalBytes(), exact.memory_bytes});
  if (exact.trained) report.first_batch_seconds = exact.first_batch_seconds;
  return report;
}

}  // namespace hearth::job
