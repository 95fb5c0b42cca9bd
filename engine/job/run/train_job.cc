#include "engine/job/run/train_job.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status.h"
#include "engine/job/data/batch_source.h"
#include "engine/job/data/locality.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/exact_epochs.h"
#include "engine/job/run/locality_guard.h"
#include "engine/job/run/member.h"
#include "engine/job/run/shared_pass.h"
#include "engine/job/run/train_run.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/kinds.h"
#include "engine/train/model_options.h"

// A train job, step by step:
//   1. Where a history is to be compared, train the first epochs without it
//      (exact_epochs.h).
//   2. Where seeds are in order of locality, choose the order; train a pilot
//      and the first epochs, and decide about the other epochs
//      (locality_guard.h), which are trained as below, without a group.
//   3. If the job may share its passes, train it in a group of jobs with equal
//      data (shared_pass.h). Otherwise open the data and its passes
//      (BatchSource), make the job's member (ModelTrainer, which finds the
//      checkpoint, or FeedMember) and feed it from the source (TrainRun).
//   4. Complete the report.

namespace hearth::job {

namespace {

// Memory of the process: before a job, and its peak while the job runs.
class ProcessMemory {
 public:
  // Upper bound of the process's memory with a job that holds `bytes`.
  uint64_t BoundWith(uint64_t bytes) const { return base_bytes_ + bytes; }
  MemorySampler& sampler() const { return *sampler_; }

 private:
  const std::unique_ptr<MemorySampler> sampler_ = NewMemorySampler();
  const uint64_t base_bytes_ = sampler_->PeakBytes();
};

bool SharesPasses(const Member::Job& job) {
  return job.environment.shared_passes != nullptr &&
         !job.options.sharing_key.empty() && job.options.data.CanShare();
}

// Trains in a group of jobs that share their passes.
absl::StatusOr<TrainReport> TrainInGroup(const Member::Job& job,
                                         double begin_seconds,
                                         std::stop_token stop) {
  return job.environment.shared_passes->Train({.environment = job.environment,
                                               .options = job.options,
                                               .observer = job.observer,
                                               .metrics = job.metrics,
                                               .memory = job.memory,
                                               .stop = std::move(stop),
                                               .begin_seconds = begin_seconds});
}

// Trains on a batch source of the job's own. `is_running`: whether the observer
// has heard so. `until_epoch` as in AttachedJob.
absl::StatusOr<TrainReport> TrainOnOwnSource(
    const Member::Job& job, bool is_running, double begin_seconds,
    std::stop_token stop, std::optional<int64_t> until_epoch = std::nullopt) {
  const TrainJobOptions& options = job.options;
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<BatchSource> source,
      BatchSource::Open(
          job.environment,
          {.data = options.data,
           .pipeline = options.pipeline,
           .training_only = !options.HasModel(),
           .embedding_width = train::HiddenWidth(options.train.model),
           .folder = options.directory,
           .job = &options},
          job.observer, stop));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<Member> member,
                          NewMember(job, source->dataset(), source->passes()));
  absl::StatusOr<TrainReport> report =
      TrainAlone(job.environment, *source,
                 {.options = options,
                  .observer = job.observer,
                  .metrics = job.metrics,
                  .member = *member,
                  .stop = std::move(stop),
                  .begin_seconds = begin_seconds,
                  .is_running = is_running,
                  .until_epoch = until_epoch});
  if (report.ok() || absl::IsCancelled(report.status())) {
    source->ReturnStrategy();
  }
  return report;
}

// Trains a job whose seeds are in order of locality.
absl::StatusOr<TrainReport> TrainInLocality(const Member::Job& job,
                                            double begin_seconds,
                                            const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(LocalityGuard guard, LocalityGuard::Open(job, stop));
  const auto train = [&](bool is_running, bool continues,
                         std::optional<int64_t> until_epoch) {
    const TrainJobOptions options = guard.Options();
    return TrainOnOwnSource({.environment = job.environment,
                             .options = options,
                             .observer = job.observer,
                             .metrics = job.metrics,
                             .memory = job.memory,
                             .stop = job.stop,
                             .continues = continues},
                            is_running, begin_seconds, stop, until_epoch);
  };
  std::optional<TrainReport> watched;
  if (guard.is_watching()) {
    HEARTH_ASSIGN_OR_RETURN(watched,
                            train(guard.has_trained(),
                                  /*continues=*/false, LocalityGuard::kEpochs));
    HEARTH_RETURN_IF_ERROR(guard.Decide());
  }
  const bool continues = watched.has_value();
  HEARTH_ASSIGN_OR_RETURN(
      TrainReport report,
      train(continues || guard.has_trained(), continues, std::nullopt));
  if (continues) {
    report.memory_bound_bytes =
        std::max(report.memory_bound_bytes, watched->memory_bound_bytes);
    report.first_batch_seconds = watched->first_batch_seconds;
    report.warm_start = watched->warm_start;
    report.preparations.insert(report.preparations.begin(),
                               watched->preparations.begin(),
                               watched->preparations.end());
  }
  guard.AddTo(report);
  return report;
}

// The data of a prepare job, whose strategy has the pieces.
absl::StatusOr<BatchOptions> WithPieces(const PrepareJobOptions& options) {
  BatchOptions data = options.data;
  if (options.pieces_folder.empty()) return data;
  auto* const diskgnn = std::get_if<strategy::DiskgnnOptions>(&data.strategy);
  if (diskgnn == nullptr || data.automatic.has_value()) {
    return absl::InvalidArgumentError(
        "pieces: only plans of strategy diskgnn are made in pieces");
  }
  if (data.history.has_value() || data.row_dtype.has_value()) {
    return absl::InvalidArgumentError(
        "pieces: a plan with a history, or of rows of another type, is not "
        "made in pieces");
  }
  diskgnn->pieces_folder = options.pieces_folder;
  if (options.num_pieces > 0) diskgnn->num_pieces = options.num_pieces;
  return data;
}

}  // namespace

absl::StatusOr<TrainReport> RunTrainJob(const JobEnvironment& environment,
                                        const TrainJobOptions& options,
                                        Observer& observer,
                                        TrainMetrics& metrics,
                                        std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  const ProcessMemory memory;
  if (options.part != TrainPart::kTest) {
    HEARTH_RETURN_IF_ERROR(
        environment.files.CreateDirectory(options.directory));
  }
  Member::Job job = {.environment = environment,
                     .options = options,
                     .observer = observer,
                     .metrics = metrics,
                     .memory = memory.sampler(),
                     .stop = stop};
  HEARTH_ASSIGN_OR_RETURN(const ExactEpochs exact, TrainExactEpochs(job, stop));
  job.exact = exact.epochs;
  const double begin_seconds = environment.clock.SteadySeconds();
  absl::StatusOr<TrainReport> report =
      options.data.locality_order ? TrainInLocality(job, begin_seconds, stop)
      : SharesPasses(job) ? TrainInGroup(job, begin_seconds, std::move(stop))
                          : TrainOnOwnSource(job, exact.trained, begin_seconds,
                                             std::move(stop));
  HEARTH_RETURN_IF_ERROR(report.status());
  exact.AddTo(*report);
  report->memory_bound_bytes = memory.BoundWith(report->memory_bound_bytes);
  return report;
}

absl::StatusOr<PrepareReport> RunPrepareJob(const JobEnvironment& environment,
                                            const PrepareJobOptions& options,
                                            Observer& observer,
                                            std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(options.data.Validate());
  HEARTH_RETURN_IF_ERROR(options.pipeline.Validate());
  const ProcessMemory memory;
  HEARTH_ASSIGN_OR_RETURN(BatchOptions data, WithPieces(options));
  std::optional<ChosenLocality> locality;
  if (data.locality_order) {
    HEARTH_ASSIGN_OR_RETURN(
        locality,
        ChooseLocality(environment, data, options.pipeline, observer, stop));
    data = InChosenOrder(std::move(data), locality->choice);
  }
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<BatchSource> source,
      BatchSource::Open(environment,
                        {.data = data,
                         .pipeline = options.pipeline,
                         .training_only = options.training_only,
                         .embedding_width = options.embedding_width},
                        observer, std::move(stop)));
  PrepareReport report;
  report.partition = source->partition();
  uint64_t choosing_bytes = 0;
  if (locality.has_value()) {
    report.partition = locality->partition;
    choosing_bytes = locality->memory_bytes;
  }
  if (options.partition_only ||
      !strategy::KindOf(options.data.strategy).makes_plans) {
    observer.OnRunning();
    report.peak_memory_bytes = memory.sampler().PeakBytes();
    report.memory = source->opening_memory();
    report.memory_bound_bytes =
        memory.BoundWith(std::max(report.memory.TotalBytes(), choosing_bytes));
    return report;
  }
  HEARTH_RETURN_IF_ERROR(source->TakeStrategy(
      {.bytes = [](const sample::BatchShape&) { return uint64_t{0}; }}));
  observer.OnRunning();
  HEARTH_ASSIGN_OR_RETURN(report.preparation, source->PreparePeriod(0));
  report.peak_memory_bytes = memory.sampler().PeakBytes();
  report.memory = source->memory();
  report.cuts = source->cuts();
  report.memory_limit_bytes = environment.memory.most_bytes();
  report.memory_bound_bytes = memory.BoundWith(
      std::max({report.memory.TotalBytes(),
                source->opening_memory().TotalBytes(), choosing_bytes}));
  source->ReturnStrategy();
  return report;
}

}  // namespace hearth::job
