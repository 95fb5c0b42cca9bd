#include "engine/job/prepare_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/job/data_run.h"
#include "engine/job/memory_sampler.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/kinds.h"

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
      const std::unique_ptr<DataRun> data,
      DataRun::Open(environment,
                    {.data = options.data,
                     .pipeline = options.pipeline,
                     .training_only = options.training_only,
                     .embedding_width = options.embedding_width},
                    observer, std::move(stop)));
  PrepareReport report;
  report.partition = data->partition();
  if (options.partition_only ||
      !strategy::KindOf(options.data.strategy).makes_plans) {
    observer.OnRunning();
    report.peak_memory_bytes = memory->PeakBytes();
    report.memory = data->partitioning_memory();
    report.memory_bound_bytes = base_memory_bytes + report.memory.TotalBytes();
    return report;
  }
  HEARTH_RETURN_IF_ERROR(data->TakeStrategy(
      {.bytes = [](const sample::BatchShape&) { return uint64_t{0}; }}));
  observer.OnRunning();
  HEARTH_ASSIGN_OR_RETURN(report.preparation, data->PreparePeriod(0));
  report.peak_memory_bytes = memory->PeakBytes();
  report.memory = data->memory();
  report.cuts = data->cuts();
  report.memory_limit_bytes = environment.memory.most_bytes();
  report.memory_bound_bytes =
      base_memory_bytes + std::max(report.memory.TotalBytes(),
                                   data->partitioning_memory().TotalBytes());
  data->ReturnStrategy();
  return report;
}

}  // namespace hearth::job
