#include "engine/job/explain_job.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/job/job_data.h"
#include "engine/job/job_passes.h"
#include "engine/job/job_sizes.h"
#include "engine/job/memory_ledger.h"
#include "engine/job/preparation_listener.h"
#include "engine/job/running_jobs.h"
#include "engine/job/step_timing.h"
#include "engine/job/warm_strategies.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/dataset.h"
#include "engine/store/dtype.h"
#include "engine/store/labels.h"
#include "engine/store/residency.h"
#include "engine/strategy/diskgnn/forecast/forecast.h"
#include "engine/strategy/diskgnn/memory_bound.h"
#include "engine/strategy/sample_stage.h"
#include "engine/strategy/spread_sampling.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

namespace hearth::job {
namespace {

using strategy::DiskgnnOptions;
using strategy::MemoryEstimate;

// Of batches that are counted as they are sampled.
MemoryEstimate EstimateCounting(const strategy::MemoryBasis& basis) {
  MemoryEstimate estimate;
  estimate.Add("topology", basis.edges().indptr.file_size_bytes);
  strategy::AddBatches(basis,
                       {.samplers = basis.pipeline.samplers,
                        .sampled = basis.pipeline.samplers + 3 * basis.shards,
                        .assembled = basis.shards},
                       estimate);
  return estimate;
}

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
    HEARTH_RETURN_IF_ERROR(
        std::holds_alternative<DiskgnnOptions>(options_.data.strategy)
            ? Forecast()
            : CountRows());
    report_.bytes_needed = report_.rows_needed * RowBytes();
    AddNotes();
    return std::move(report_);
  }

 private:
  uint64_t RowBytes() const {
    const auto& features = dataset_->manifest().node_types[0].features;
    return static_cast<uint64_t>(features.shape[1] *
                                 store::SizeOf(features.dtype));
  }

  absl::Status Open() {
    HEARTH_ASSIGN_OR_RETURN(JobData data,
                            OpenJobData(environment_,
                                        {.data = options_.data,
                                         .training_only = !options_.HasModel()},
                                        observer_));
    dataset_ = std::move(data.dataset);
    labels_ = std::move(data.labels);
    passes_ = std::move(data.passes);
    HEARTH_ASSIGN_OR_RETURN(step_, NewModel(environment_, options_, *dataset_));
    return absl::OkStatus();
  }

  // What the job would hold; and what this one does.
  absl::Status ReserveMemory() {
    const std::vector<strategy::Pass> kinds = passes_->Kinds();
    const auto model_bytes = [this](const sample::BatchShape& shape) {
      return step_->MemoryBytes(shape);
    };
    const StrategyUse use = {.data = options_.data,
                             .pipeline = options_.pipeline,
                             .labels = labels_,
                             .passes = kinds,
                             .model_bytes = model_bytes};
    HEARTH_ASSIGN_OR_RETURN(const JobSizes sizes,
                            FindJobSizes(environment_, *dataset_, use, stop_));
    report_.memory = sizes.estimate;
    report_.memory_bytes = sizes.estimate.TotalBytes();
    passes_->SetBatches(sizes.batches);
    const strategy::MemoryBasis basis = BasisOf(*dataset_, use, sizes.batches);
    const auto* diskgnn = std::get_if<DiskgnnOptions>(&options_.data.strategy);
    MemoryEstimate own =
        diskgnn == nullptr ? EstimateCounting(basis)
                           : strategy::EstimateForecastMemory(*diskgnn, basis);
    AddJobShares(use, sizes.batches, own);
    return environment_.memory.Reserve(own, reservation_, stop_,
                                       [this](const std::string& text) {
                                         observer_.OnLog(Severity::kInfo, text);
                                       });
  }

  // The passes of the first period, those of training first.
  struct Passes {
    std::vector<strategy::Pass> all;
    size_t num_training = 0;

    absl::Span<const strategy::Pass> training() const {
      return absl::MakeConstSpan(all).first(num_training);
    }
  };

  Passes FirstPasses() const {
    Passes passes = {.all = passes_->OfPeriod(0)};
    passes.num_training = passes.all.size() - (passes_->num_valid() > 0) -
                          (passes_->num_test() > 0);
    return passes;
  }

  absl::StatusOr<double> TrainSeconds() {
    if (!options_.HasModel()) return 0;
    const strategy::Pass pass = passes_->Training(0);
    return TimeTrainStep({.dataset = *dataset_,
                          .labels = labels_,
                          .clock = environment_.clock,
                          .pass = pass,
                          .samplers = options_.pipeline.samplers,
                          .stop = stop_},
                         *step_);
  }

  absl::Status Forecast() {
    const Passes passes = FirstPasses();
    HEARTH_ASSIGN_OR_RETURN(const double train_seconds, TrainSeconds());
    HEARTH_ASSIGN_OR_RETURN(const ScratchFolder scratch,
                            environment_.warm_strategies.NewScratch());
    const strategy::PreparationListener listener = ListenFor(observer_);
    HEARTH_ASSIGN_OR_RETURN(
        strategy::DiskgnnForecast forecast,
        strategy::ForecastDiskgnn(
            {.dataset = *dataset_,
             .labels = labels_,
             .files = environment_.files,
             .read_queues = environment_.read_queues,
             .clock = environment_.clock,
             .options = std::get<DiskgnnOptions>(options_.data.strategy),
             .pipeline = options_.pipeline,
             .plans = environment_.plans,
             .scratch_folder = scratch.path(),
             .listener = listener,
             .stop = stop_},
            {.passes = passes.all,
             .num_training = passes.num_training,
             .train_seconds = train_seconds,
             .train_threads = options_.train.train_threads *
                              static_cast<int>(options_.data.trainers)},
            most_batches_));
    report_.rows_needed = forecast.rows_needed;
    report_.levels = std::move(forecast.levels);
    report_.bytes_read = forecast.bytes_read;
    report_.read_ops = forecast.read_ops;
    report_.disk_bytes = forecast.disk_bytes;
    report_.prepare_seconds = forecast.prepare_seconds;
    report_.epoch_seconds = forecast.epoch_seconds;
    report_.plan = std::move(forecast.plan);
    report_.plan_exists = forecast.plan_exists;
    report_.sampled_batches = forecast.sampled_batches;
    report_.total_batches = forecast.total_batches;
    report_.notes = std::move(forecast.notes);
    return absl::OkStatus();
  }

  // Of strategies that are not foreseen.
  absl::Status CountRows() {
    const Passes passes = FirstPasses();
    const std::vector<strategy::ShardPick> picks =
        strategy::SpreadOver(passes.training(), most_batches_);
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<store::LoadedTopology> topology,
        dataset_->LoadTopology(
            {store::Residency::kMemory, store::Residency::kMapped}));
    const strategy::PreparationListener listener = ListenFor(observer_);
    double rows = 0;
    double seeds = 0;
    HEARTH_RETURN_IF_ERROR(strategy::SampleShards(
        {.clock = environment_.clock,
         .source = {.topology = topology->view(), .labels = labels_},
         .samplers = options_.pipeline.samplers,
         .progress =
             [&](uint64_t done, uint64_t total) {
               listener.progress("sampling", done, total);
             }},
        passes.training(), picks,
        [&](const strategy::ShardPick&, const sample::MiniBatch& batch) {
          rows += static_cast<double>(batch.input_nodes.size());
          seeds += static_cast<double>(batch.num_seeds);
          return absl::OkStatus();
        },
        stop_));
    // In proportion to seeds: exact if all batches were sampled.
    report_.rows_needed = static_cast<uint64_t>(
        std::llround(rows / seeds * static_cast<double>(passes_->num_train())));
    report_.sampled_batches =
        picks.size() / static_cast<uint64_t>(options_.data.trainers);
    report_.total_batches =
        static_cast<uint64_t>(strategy::TotalBatches(passes.all));
    const std::string name = strategy::Name(options_.data.strategy);
    report_.notes.push_back(
        absl::StrCat("What ", name, " reads depends on what its caches hold ",
                     "when: reads and time are not foreseen."));
    return absl::OkStatus();
  }

  void AddNotes() {
    const uint64_t limit = environment_.memory.limit_bytes();
    if (report_.memory_bytes > limit) {
      report_.notes.push_back(
          absl::StrCat("The job would be refused: it may hold ",
                       FormatByteSize(report_.memory_bytes), " of memory (",
                       strategy::FormatShares(report_.memory),
                       "), and jobs may hold ", FormatByteSize(limit), "."));
    }
    if (passes_->num_periods() > 1) {
      report_.notes.push_back(absl::StrCat(
          "Figures are those of the first of ", passes_->num_periods(),
          " periods of ", options_.data.refresh_epochs,
          " epochs, each of which has batches of its own."));
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
  std::optional<JobPasses> passes_;
  std::unique_ptr<train::TrainStep> step_;
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
