#include "engine/job/explain_job.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/job/job_data.h"
#include "engine/job/job_partition.h"
#include "engine/job/job_passes.h"
#include "engine/job/job_sizes.h"
#include "engine/job/memory_ledger.h"
#include "engine/job/preparation_listener.h"
#include "engine/job/running_jobs.h"
#include "engine/job/step_timing.h"
#include "engine/job/warm_strategies.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/dataset.h"
#include "engine/store/dtype.h"
#include "engine/store/labels.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_estimate.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

namespace hearth::job {
namespace {

class ExplainRun {
 public:
  ExplainRun(const JobEnvironment& environment, const TrainJobOptions& options,
             Observer& observer, std::stop_token stop, int64_t most_batches)
      : environment_(environment),
        options_(options),
        observer_(observer),
        stop_(std::move(stop)),
        most_batches_(most_batches),
        running_(environment.running_jobs) {}

  absl::StatusOr<ExplainReport> Run() {
    HEARTH_RETURN_IF_ERROR(Open());
    HEARTH_RETURN_IF_ERROR(ReserveMemory());
    observer_.OnRunning();
    report_.batches = static_cast<uint64_t>(
        strategy::NumBatches(passes_->num_train(), options_.data.batch_size));
    HEARTH_RETURN_IF_ERROR(Forecast());
    report_.bytes_needed = report_.rows_needed * RowBytes();
    AddNotes();
    return std::move(report_);
  }

 private:
  uint64_t RowBytes() const {
    return static_cast<uint64_t>(
        store::CommonFormat(dataset_->manifest()).row_bytes());
  }

  absl::Status Open() {
    HEARTH_ASSIGN_OR_RETURN(
        JobData data,
        OpenJobData(
            environment_,
            {.data = options_.data,
             .pipeline = options_.pipeline,
             .training_only = !options_.HasModel(),
             .embedding_width = train::HiddenWidth(options_.train.model)},
            observer_, stop_));
    dataset_ = std::move(data.dataset);
    labels_ = std::move(data.labels);
    partition_ = std::move(data.partition);
    opening_ = std::move(data.memory);
    passes_ = std::move(data.passes);
    data_ = std::move(data.data);
    report_.history = std::move(data.history);
    HEARTH_ASSIGN_OR_RETURN(
        step_, NewModel(environment_, options_, *dataset_, *passes_));
    return absl::OkStatus();
  }

  // The memory that the job would hold, and that of this one.
  absl::Status ReserveMemory() {
    const std::vector<strategy::Pass> kinds = passes_->Kinds();
    const uint64_t besides = RankingBytes(options_, *dataset_, *passes_) +
                             SelfLoopBytes(options_, *dataset_);
    const auto model_bytes = [&](const sample::BatchShape& shape) {
      return step_->MemoryBytes(shape) + besides;
    };
    const ModelNeed model = {.bytes = model_bytes,
                             .parameter_bytes = step_->ParameterBytes(),
                             .kept_bytes = step_->KeptBytes() + besides};
    const StrategyUse use = {
        .data = data_,
        .pipeline = options_.pipeline,
        .labels = labels_,
        .passes = kinds,
        .embedding_width = train::HiddenWidth(options_.train.model),
        .model = model,
        .partition = partition_.has_value() ? &*partition_ : nullptr};
    HEARTH_ASSIGN_OR_RETURN(const JobSizes sizes,
                            FindJobSizes(environment_, *dataset_, use, stop_));
    report_.memory = sizes.estimate;
    report_.memory_bytes = sizes.estimate.TotalBytes();
    const sample::BatchShape largest = sizes.batches.WithMargin();
    AddGpuShare(options_.train, *step_, largest, report_.memory);
    report_.cuts = sizes.cuts;
    report_.memory_limit_bytes = environment_.memory.most_bytes();
    passes_->SetBatches(sizes.batches);
    chosen_ = sizes.chosen;
    strategy::MemoryBasis basis =
        BasisOf(environment_, *dataset_, use, sizes.batches);
    basis.pipeline = chosen_.pipeline;
    // The processor samples for a forecast.
    basis.pipeline.sampling_gpu = std::nullopt;
    strategy::MemoryEstimate own =
        strategy::EstimateForecastMemory(chosen_.strategy, basis);
    AddJobShares(use, sizes.batches, own);
    AddGpuShare(options_.train, *step_, largest, own);
    HEARTH_RETURN_IF_ERROR(CheckFits(environment_, use, own));
    opening_ = {};
    return environment_.memory.Reserve(own, reservation_);
  }

  absl::StatusOr<double> TrainSeconds() {
    if (!options_.HasModel()) return 0;
    const strategy::Pass pass = passes_->Training(0);
    return TimeTrainStep({.dataset = *dataset_,
                          .labels = labels_,
                          .clock = environment_.clock,
                          .pass = pass,
                          .samplers = chosen_.pipeline.samplers,
                          .stop = stop_},
                         *step_);
  }

  absl::Status Forecast() {
    // Those of the first period: training comes first.
    const std::vector<strategy::Pass> passes = passes_->OfPeriod(0);
    const size_t num_training =
        passes.size() - (passes_->num_valid() > 0) - (passes_->num_test() > 0);
    HEARTH_ASSIGN_OR_RETURN(const ScratchFolder scratch,
                            environment_.warm_strategies.NewScratch());
    const strategy::PreparationListener listener = ListenFor(observer_);
    HEARTH_ASSIGN_OR_RETURN(
        static_cast<strategy::Forecast&>(report_),
        strategy::MakeForecast(
            chosen_.strategy,
            {.dataset = *dataset_,
             .labels = labels_,
             .files = environment_.files,
             .read_queues = environment_.read_queues,
             .clock = environment_.clock,
             .pipeline = chosen_.pipeline,
             .plans = environment_.plans,
             .data_disks = environment_.data_disks,
             .scratch_folder = scratch.path(),
             .listener = listener,
             .stop = stop_,
             .partition =
                 partition_.has_value() ? partition_->partition : nullptr},
            {.passes = passes,
             .num_training = num_training,
             .time_training = [this] { return TrainSeconds(); },
             .train_threads = options_.train.train_threads *
                              static_cast<int>(options_.data.trainers),
             .most_batches = most_batches_}));
    return absl::OkStatus();
  }

  void AddNotes() {
    const uint64_t limit = report_.memory_limit_bytes;
    if (report_.memory_bytes > limit) {
      report_.notes.push_back(
          absl::StrCat("The job would be refused: it may hold ",
                       FormatByteSize(report_.memory_bytes), " of memory (",
                       strategy::FormatShares(report_.memory),
                       "), and jobs may hold ", FormatByteSize(limit), "."));
    }
    if (data_.history.has_value() && !report_.bytes_read.has_value()) {
      report_.notes.push_back(
          "Rows and reads are for training without a history; with it they are "
          "fewer.");
    }
    if (data_.history.has_value() &&
        options_.data.history->compare_epochs > 0) {
      report_.notes.push_back(absl::StrCat(
          "Training first runs ", options_.data.history->compare_epochs,
          " epochs without the history, to compare: their reads and "
          "preparations are not counted."));
    }
    if (passes_->num_periods() > 1) {
      report_.notes.push_back(absl::StrCat(
          "Batches are resampled every ", options_.data.refresh_epochs,
          " epochs: figures are for the first of ", passes_->num_periods(),
          " such periods."));
    }
  }

  const JobEnvironment& environment_;
  const TrainJobOptions& options_;
  Observer& observer_;
  const std::stop_token stop_;
  const int64_t most_batches_;
  const RunningJobs::Job running_;
  std::unique_ptr<store::Dataset> dataset_;
  store::Labels labels_;
  std::optional<JobPartition> partition_;
  std::optional<JobPasses> passes_;
  // Without the memory that a history takes of the strategy's.
  DataOptions data_;
  // Configuration that the job would have, so that it fits.
  strategy::StrategyConfiguration chosen_;
  std::unique_ptr<train::TrainStep> step_;
  // For what is opened; then for all.
  MemoryLedger::Reservation opening_;
  MemoryLedger::Reservation reservation_;
  ExplainReport report_;
};

}  // namespace

absl::StatusOr<ExplainReport> RunExplainJob(const JobEnvironment& environment,
                                            const TrainJobOptions& options,
                                            Observer& observer,
                                            std::stop_token stop,
                                            int64_t most_batches) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  return ExplainRun(environment, options, observer, std::move(stop),
                    most_batches)
      .Run();
}

}  // namespace hearth::job
