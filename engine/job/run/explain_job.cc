#include "engine/job/run/explain_job.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/job/data/auto_choice.h"
#include "engine/job/data/locality.h"
#include "engine/job/data/opened_job.h"
#include "engine/job/data/passes.h"
#include "engine/job/data/seed_partition.h"
#include "engine/job/data/step_timer.h"
#include "engine/job/data/strategy_lease.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/memory/warm_strategies.h"
#include "engine/job/run/locality_guard.h"
#include "engine/machine/disk_profile.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

namespace hearth::job {

namespace {

// Arguments of TimeTrainStep; all outlive the call.
struct TimedTraining {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const Clock& clock;
  // A training pass.
  const strategy::Pass& pass;
  // Number of threads that sample.
  int samplers = 1;
  std::stop_token stop;
};

// Mean seconds of a training step on a batch of the pass. Trains `step` on a
// few batches, with zeros for features, so that it cannot be used afterwards.
// Holds the indptr, a few batches and one batch's input rows in memory. Errors
// of sampling and of the step; CANCELLED when a stop is requested.
absl::StatusOr<double> TimeTrainStep(const TimedTraining& training,
                                     train::TrainStep& step) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      training.dataset.LoadTopology(
          {store::Residency::kMemory, store::Residency::kMapped},
          training.stop));
  StepTimer timer({.dataset = training.dataset,
                   .labels = training.labels,
                   .clock = training.clock,
                   .pass = training.pass},
                  step);
  const absl::Span<const strategy::Pass> passes(&training.pass, 1);
  HEARTH_RETURN_IF_ERROR(strategy::SampleShards(
      {.clock = training.clock,
       .source = strategy::SampleSource{.topology = *topology,
                                        .labels = training.labels},
       .samplers = training.samplers},
      passes, strategy::SpreadOver(passes, StepTimer::kBatches),
      [&](const strategy::ShardPick& pick, const sample::MiniBatch& batch) {
        return timer.Add(pick, batch);
      },
      training.stop));
  return timer.SecondsPerBatch();
}

// Makes the forecast of one job.
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
    BatchOptions data = options_.data;
    if (data.locality_order) {
      HEARTH_ASSIGN_OR_RETURN(
          const ChosenLocality chosen,
          ChooseLocality(environment_, data, options_.pipeline, observer_,
                         stop_));
      report_.locality = chosen.choice;
      data = InChosenOrder(std::move(data), chosen.choice);
    }
    HEARTH_ASSIGN_OR_RETURN(
        OpenedJob opened,
        OpenJob(environment_,
                {.data = data,
                 .pipeline = options_.pipeline,
                 .training_only = !options_.HasModel(),
                 .forecast_only = true,
                 .embedding_width = train::HiddenWidth(options_.train.model)},
                observer_, stop_));
    dataset_ = std::move(opened.dataset);
    labels_ = std::move(opened.labels);
    partition_ = std::move(opened.partition);
    opening_ = std::move(opened.memory);
    passes_ = std::move(opened.passes);
    data_ = std::move(opened.data);
    report_.history = std::move(opened.history);
    HEARTH_ASSIGN_OR_RETURN(
        step_, NewModel(environment_, options_, *dataset_, *passes_));
    return absl::OkStatus();
  }

  // Memory that the job would hold, and memory of the forecast itself.
  absl::Status ReserveMemory() {
    const std::vector<strategy::Pass> kinds = passes_->Kinds();
    const uint64_t besides = RankingBytes(options_, *dataset_, *passes_) +
                             SelfLoopBytes(options_, *dataset_);
    const auto model_bytes = [&](const sample::BatchShape& shape) {
      uint64_t bytes = step_->MemoryBytes(shape) + besides;
      if (strategy::LeavesRowsInPlace(data_.strategy)) {
        bytes += step_->BytesInPlace(shape).value_or(0);
      }
      return bytes;
    };
    const ModelNeed model = {.bytes = model_bytes,
                             .parameter_bytes = step_->ParameterBytes(),
                             .kept_bytes = step_->KeptBytes() + besides};
    HEARTH_RETURN_IF_ERROR(Choose(model));
    const StrategyUse use = {
        .data = data_,
        .pipeline = options_.pipeline,
        .labels = labels_,
        .passes = kinds,
        .embedding_width = train::HiddenWidth(options_.train.model),
        .model = model,
        .partition = partition_.has_value() ? &*partition_ : nullptr};
    HEARTH_ASSIGN_OR_RETURN(const MemoryFit fit,
                            FitToMemory(environment_, *dataset_, use, stop_));
    report_.memory = fit.estimate;
    report_.memory_bytes = fit.estimate.TotalBytes();
    const sample::BatchShape largest = fit.batches.WithMargin();
    AddGpuShare(options_.train, *step_, largest, report_.memory);
    report_.cuts = fit.cuts;
    report_.memory_limit_bytes = environment_.memory.most_bytes();
    passes_->SetBatches(fit.batches);
    chosen_ = fit.chosen;
    strategy::MemoryBasis basis =
        BasisOf(environment_, *dataset_, use, fit.batches);
    basis.pipeline = chosen_.pipeline;
    // A forecast always samples on the processor.
    basis.pipeline.sampling_gpu = std::nullopt;
    strategy::MemoryEstimate own =
        report_.automatic.has_value()
            ? strategy::EstimateCountingMemory(basis)
            : strategy::EstimateForecastMemory(chosen_.strategy, basis,
                                               environment_.disks != nullptr);
    AddJobShares(use, fit.batches, own);
    AddGpuShare(options_.train, *step_, largest, own);
    HEARTH_RETURN_IF_ERROR(CheckFits(environment_, use, own));
    opening_ = {};
    return environment_.memory.Reserve(own, reservation_);
  }

  // Chooses the strategy, if it is to be chosen.
  absl::Status Choose(const ModelNeed& model) {
    if (!data_.automatic.has_value()) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(
        report_.automatic,
        ChooseStrategy(
            environment_,
            {.dataset = *dataset_,
             .labels = labels_,
             .passes = *passes_,
             .data = data_,
             .partition = partition_.has_value() ? &*partition_ : nullptr,
             .model = model,
             .job = options_,
             .compares_all = true},
            observer_, stop_));
    data_.strategy = StrategyOf(*report_.automatic);
    return absl::OkStatus();
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
    // Passes of the first period: the first ones are training passes.
    const std::vector<strategy::Pass> passes = passes_->OfPeriod(0);
    const size_t num_training =
        passes.size() - (passes_->num_valid() > 0) - (passes_->num_test() > 0);
    HEARTH_ASSIGN_OR_RETURN(const ScratchFolder scratch,
                            environment_.warm_strategies.NewScratch());
    std::optional<machine::DiskProfile> disk;
    if (environment_.disks != nullptr) {
      HEARTH_ASSIGN_OR_RETURN(disk, ProfileOf(environment_, *dataset_, stop_));
    }
    const strategy::PreparationListener listener = ListenFor(observer_);
    const strategy::ForecastContext context = {
        .dataset = *dataset_,
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
        .partition = partition_.has_value() ? partition_->partition : nullptr,
        .disk = disk.has_value() ? &*disk : nullptr};
    const strategy::PassSequence sequence =
        passes_->SequenceOf(options_.data, 0);
    const strategy::ForecastRequest request = {
        .passes = passes,
        .num_training = num_training,
        .sequence = &sequence,
        .time_training = [this] { return TrainSeconds(); },
        .train_threads = options_.train.train_threads *
                         static_cast<int>(options_.data.trainers),
        .most_batches = most_batches_};
    auto& forecast = static_cast<strategy::Forecast&>(report_);
    if (!report_.automatic.has_value()) {
      HEARTH_ASSIGN_OR_RETURN(
          forecast, strategy::MakeForecast(chosen_.strategy, context, request));
      return absl::OkStatus();
    }
    HEARTH_ASSIGN_OR_RETURN(forecast, strategy::CountRows(context, request));
    AddPrice(forecast);
    return absl::OkStatus();
  }

  // Takes the figures of the chosen strategy from its price.
  void AddPrice(strategy::Forecast& forecast) const {
    const AutoChoice& choice = *report_.automatic;
    for (const AutoCandidate& candidate : choice.candidates) {
      if (candidate.strategy != choice.strategy || choice.processors == 0) {
        continue;
      }
      forecast.bytes_read = candidate.bytes_read;
      forecast.prepare_seconds = candidate.prepare_seconds;
      forecast.first_epoch_seconds = candidate.first_epoch_seconds;
      forecast.epoch_seconds = candidate.epoch_seconds;
      forecast.plan_exists = candidate.plan_exists;
      if (candidate.disk_bytes > 0) forecast.disk_bytes = candidate.disk_bytes;
    }
    forecast.notes.push_back(
        absl::StrCat("Reads and times are rough prices; with --strategy ",
                     choice.strategy, ", more is sampled and measured."));
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
    if (report_.locality.has_value() &&
        options_.data.epochs > LocalityGuard::kEpochs) {
      report_.notes.push_back(absl::StrCat(
          "Training first runs ", LocalityGuard::kEpochs,
          " epochs in shuffled order, to compare: their reads and preparations "
          "are not counted."));
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
  std::optional<SeedPartition> partition_;
  std::optional<PassSchedule> passes_;
  // Options without the memory that a history takes of the strategy's cache.
  BatchOptions data_;
  // Configuration that the job would have, cut to fit.
  strategy::StrategyConfiguration chosen_;
  std::unique_ptr<train::TrainStep> step_;
  // Reservations for the opened data, then for the whole forecast.
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
