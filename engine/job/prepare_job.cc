#include "engine/job/prepare_job.h"

#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/job/job_data.h"
#include "engine/job/memory_sampler.h"
#include "engine/job/preparation_listener.h"
#include "engine/job/strategy_lease.h"
#include "engine/sample/batch_shape.h"

namespace hearth::job {

absl::StatusOr<PrepareReport> RunPrepareJob(const JobEnvironment& environment,
                                            const PrepareJobOptions& options,
                                            Observer& observer,
                                            std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(options.data.Validate());
  HEARTH_RETURN_IF_ERROR(options.pipeline.Validate());
  const std::unique_ptr<MemorySampler> memory = NewMemorySampler();
  const uint64_t base_memory_bytes = memory->PeakBytes();
  const Census::Resident resident(environment.census);
  HEARTH_ASSIGN_OR_RETURN(JobData data,
                          OpenJobData(environment,
                                      {.data = options.data,
                                       .training_only = options.training_only},
                                      observer));
  HEARTH_ASSIGN_OR_RETURN(
      StrategyLease lease,
      StrategyLease::Take(environment, std::move(data.dataset),
                          {.data = options.data,
                           .pipeline = options.pipeline,
                           .labels = data.labels,
                           .passes = data.passes.Kinds(),
                           .model_bytes = [](const sample::BatchShape&)
                               -> uint64_t { return 0; }},
                          observer, stop));
  data.passes.SetBatches(lease.batches());
  observer.OnRunning();
  PrepareReport report;
  HEARTH_ASSIGN_OR_RETURN(report.preparation,
                          lease.strategy().Prepare(data.passes.OfPeriod(0),
                                                   ListenFor(observer), stop));
  report.peak_memory_bytes = memory->PeakBytes();
  report.memory = lease.memory();
  report.memory_bound_bytes = base_memory_bytes + report.memory.TotalBytes();
  std::move(lease).Return();
  return report;
}

}  // namespace hearth::job
