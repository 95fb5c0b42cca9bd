// A train job, step by step:
//   1. open the dataset, load labels and split, make the model; go on from the
//      checkpoint if there is one; take the strategy, prepare its passes;
//   2. for each epoch: check that the dataset's files are unchanged, prepare
//      where new batches are due, train on those from next_batch on, validate,
//      report, write a checkpoint;
//   3. restore the best epoch's weights if early stopping chose one, test,
//      write the model, report.
// Everything that must survive a kill is in `state_` (a Checkpoint). A batch's
// loss enters it together with the batch number, so that a replayed batch
// counts once.
#include "engine/job/train_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/base/process.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/job/ahead_preparation.h"
#include "engine/job/checkpoint.h"
#include "engine/job/export_model.h"
#include "engine/job/job_data.h"
#include "engine/job/job_passes.h"
#include "engine/job/memory_sampler.h"
#include "engine/job/preparation_listener.h"
#include "engine/job/strategy_lease.h"
#include "engine/store/dataset.h"
#include "engine/strategy/strategy.h"
#include "engine/train/metric.h"

namespace hearth::job {
namespace {

std::string LossDigest(const std::vector<float>& losses) {
  Sha256 digest;
  digest.Update(absl::Span<const std::byte>(
      reinterpret_cast<const std::byte*>(losses.data()),
      losses.size() * sizeof(float)));
  return digest.HexDigest();
}

class TrainRun {
 public:
  TrainRun(const JobEnvironment& environment, const TrainJobOptions& options,
           Observer& observer, TrainMetrics& metrics, std::stop_token stop)
      : environment_(environment),
        options_(options),
        observer_(observer),
        metrics_(metrics),
        stop_(std::move(stop)),
        memory_(NewMemorySampler()),
        base_memory_bytes_(memory_->PeakBytes()),
        start_seconds_(environment.clock.SteadySeconds()),
        resident_(environment.census) {}

  absl::StatusOr<TrainReport> Run() {
    HEARTH_RETURN_IF_ERROR(Open());
    HEARTH_RETURN_IF_ERROR(EnterPeriod());
    observer_.OnRunning();
    LogStart();
    absl::StatusOr<TrainReport> report = TrainAndTest();
    if (absl::IsCancelled(report.status()) && CanCheckpoint()) {
      HEARTH_RETURN_IF_ERROR(WriteState());
      observer_.OnLog(Severity::kInfo,
                      absl::StrFormat("stopped at epoch %d, batch %d",
                                      state_.epoch + 1, state_.next_batch));
    }
    ahead_.reset();
    // After an error there is no telling what state it is in.
    if (report.ok() || absl::IsCancelled(report.status())) {
      std::move(*lease_).Return();
    }
    return report;
  }

 private:
  // Those of one batch.
  using Shards = absl::Span<const train::BatchView>;

  absl::StatusOr<TrainReport> TrainAndTest() {
    while (state_.epoch < options_.data.epochs && !StoppedEarly()) {
      HEARTH_RETURN_IF_ERROR(RunEpoch());
    }
    return Finish();
  }

  absl::Status Open() {
    HEARTH_RETURN_IF_ERROR(
        environment_.files.CreateDirectory(options_.directory));
    HEARTH_ASSIGN_OR_RETURN(JobData data,
                            OpenJobData(environment_,
                                        {.data = options_.data,
                                         .training_only = !options_.HasModel()},
                                        observer_));
    passes_ = std::move(data.passes);
    metric_ =
        train::MetricFor(data.dataset->manifest().node_types[0].label_kind);
    HEARTH_ASSIGN_OR_RETURN(step_,
                            NewModel(environment_, options_, *data.dataset));
    HEARTH_RETURN_IF_ERROR(Resume());
    HEARTH_ASSIGN_OR_RETURN(
        lease_,
        StrategyLease::Take(environment_, std::move(data.dataset),
                            {.data = options_.data,
                             .pipeline = options_.pipeline,
                             .labels = data.labels,
                             .passes = passes_->Kinds(),
                             .model_bytes =
                                 [this](const sample::BatchShape& shape) {
                                   return step_->MemoryBytes(shape);
                                 }},
                            observer_, stop_));
    passes_->SetBatches(lease_->batches());
    return absl::OkStatus();
  }

  // Prepares the passes of the epoch to come, if those of the last one do not
  // do, and begins with the next ones that will be needed.
  absl::Status EnterPeriod() {
    const int64_t period =
        passes_->PeriodOf(std::min(state_.epoch, options_.data.epochs - 1));
    if (period == period_) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(
        const std::optional<strategy::PreparationReport> ahead, FinishAhead());
    HEARTH_ASSIGN_OR_RETURN(
        strategy::PreparationReport report,
        lease_->strategy().Prepare(passes_->OfPeriod(period),
                                   ListenFor(observer_), stop_));
    if (ahead.has_value() && ahead->plan == report.plan) report = *ahead;
    if (!report.plan.empty()) {
      preparations_.push_back({.first_epoch = static_cast<uint32_t>(
                                   passes_->FirstEpochOf(period) + 1),
                               .preparation = std::move(report)});
    }
    period_ = period;
    if (period + 1 < passes_->num_periods()) {
      ahead_.emplace(lease_->strategy(), passes_->OfPeriod(period + 1));
    }
    return absl::OkStatus();
  }

  // What was prepared ahead, if anything was. What went wrong is only told: it
  // will happen again, or not, where the plan is needed.
  absl::StatusOr<std::optional<strategy::PreparationReport>> FinishAhead() {
    if (!ahead_.has_value()) return std::nullopt;
    const absl::StatusOr<strategy::PreparationReport> report =
        ahead_->Finish(stop_);
    LogAhead();
    ahead_.reset();
    if (report.ok()) return *report;
    if (stop_.stop_requested()) return report.status();
    observer_.OnLog(
        Severity::kWarning,
        absl::StrCat("preparing ahead: ", report.status().message()));
    return std::nullopt;
  }

  void LogAhead() {
    if (!ahead_.has_value()) return;
    for (const std::string& text : ahead_->TakeLog()) {
      observer_.OnLog(Severity::kInfo, absl::StrCat("ahead: ", text));
    }
  }

  absl::Status Resume() {
    HEARTH_ASSIGN_OR_RETURN(
        std::optional<Checkpoint> checkpoint,
        ReadCheckpoint(environment_.files, options_.directory));
    if (!checkpoint.has_value()) return absl::OkStatus();
    state_ = *std::move(checkpoint);
    HEARTH_RETURN_IF_ERROR(step_->Load(state_.state));
    ++state_.resumes;
    observer_.OnLog(Severity::kInfo,
                    absl::StrFormat("going on from epoch %d, batch %d",
                                    state_.epoch + 1, state_.next_batch));
    return absl::OkStatus();
  }

  void LogStart() {
    const store::Manifest& manifest = lease_->dataset().manifest();
    observer_.OnLog(
        Severity::kInfo,
        absl::StrFormat("dataset %s (%s), strategy %s: %d training nodes, %d "
                        "batches an epoch",
                        manifest.name, manifest.fingerprint,
                        strategy::Name(options_.data.strategy),
                        passes_->num_train(), NumBatches()));
  }

  bool StoppedEarly() const {
    return options_.patience > 0 && state_.best_epoch > 0 &&
           state_.epoch - state_.best_epoch >= options_.patience;
  }

  int64_t NumBatches() const {
    return strategy::NumBatches(passes_->num_train(), options_.data.batch_size);
  }

  absl::Status RunEpoch() {
    HEARTH_RETURN_IF_ERROR(lease_->dataset().CheckUnchanged());
    HEARTH_RETURN_IF_ERROR(EnterPeriod());
    HEARTH_RETURN_IF_ERROR(TrainEpoch());
    EpochReport report;
    report.epoch = static_cast<uint32_t>(state_.epoch + 1);
    report.loss = state_.epoch_loss_sum /
                  static_cast<double>(std::max<int64_t>(state_.epoch_seeds, 1));
    report.training = state_.epoch_training;
    report.metric = metric_;
    if (passes_->num_valid() > 0) {
      HEARTH_ASSIGN_OR_RETURN(
          report.valid_metric,
          Evaluate("validating", passes_->Validation(), passes_->num_valid(),
                   report.validation));
    }
    LogAhead();
    metrics_.OnEpoch(report);
    HEARTH_RETURN_IF_ERROR(CloseEpoch(report));
    observer_.OnEpoch(report);
    if (StoppedEarly()) {
      observer_.OnLog(
          Severity::kInfo,
          absl::StrFormat("no better %s of validation for %d epochs: "
                          "keeping epoch %d",
                          train::Name(metric_), options_.patience,
                          state_.best_epoch));
    }
    return absl::OkStatus();
  }

  // Trains the rest of the epoch.
  absl::Status TrainEpoch() {
    const int64_t num_batches = NumBatches();
    if (state_.next_batch >= num_batches) return absl::OkStatus();
    strategy::Pass pass = passes_->Training(state_.epoch);
    pass.first_batch = state_.next_batch;
    const strategy::PassReport before = state_.epoch_training;
    const ReadStart start = StartReading();
    strategy::PassReport part;
    const absl::Status status = RunPass(
        pass,
        [&](Shards shards) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(TrainBatch(shards, num_batches));
          if (!CheckpointIsDue(num_batches)) return absl::OkStatus();
          strategy::PassReport so_far = part;
          AddBytesRead(start, so_far);
          state_.epoch_training = before;
          strategy::Accumulate(so_far, state_.epoch_training);
          return WriteState();
        },
        part);
    state_.epoch_training = before;
    strategy::Accumulate(part, state_.epoch_training);
    return status;
  }

  absl::Status TrainBatch(Shards shards, int64_t num_batches) {
    const train::StepPosition position = {
        .epoch = static_cast<uint64_t>(state_.epoch),
        .batch = static_cast<uint64_t>(state_.next_batch)};
    HEARTH_ASSIGN_OR_RETURN(const train::BatchResult result,
                            step_->Train(shards, position));
    if (!std::isfinite(result.loss)) {
      return absl::AbortedError(absl::StrFormat(
          "training diverged: the loss of epoch %d, batch %d is %f; a smaller "
          "--lr may help",
          state_.epoch + 1, state_.next_batch, result.loss));
    }
    state_.losses.push_back(result.loss);
    state_.epoch_loss_sum += static_cast<double>(result.loss) *
                             static_cast<double>(result.num_seeds);
    state_.epoch_seeds += result.num_seeds;
    ++state_.next_batch;
    metrics_.OnBatch(result.loss);
    ReportProgress("training", state_.next_batch, num_batches, result.loss);
    return absl::OkStatus();
  }

  // Batches in another order are no beginning of the epoch to go on from: then
  // the last epoch's checkpoint stays.
  bool CanCheckpoint() const {
    return state_.next_batch == 0 ||
           strategy::DeliversInOrder(options_.data.strategy);
  }

  bool CheckpointIsDue(int64_t num_batches) const {
    // The epoch's end has a checkpoint of its own.
    return options_.checkpoint_every > 0 && CanCheckpoint() &&
           state_.next_batch % options_.checkpoint_every == 0 &&
           state_.next_batch < num_batches;
  }

  // The epoch's results become part of what a checkpoint keeps.
  absl::Status CloseEpoch(const EpochReport& report) {
    state_.epochs.push_back(report);
    ++state_.epoch;
    state_.next_batch = 0;
    state_.epoch_loss_sum = 0;
    state_.epoch_seeds = 0;
    state_.epoch_training = {};
    if (options_.patience > 0 && IsBest(report.valid_metric)) {
      state_.best_metric = report.valid_metric;
      state_.best_epoch = report.epoch;
      HEARTH_ASSIGN_OR_RETURN(state_.best_state, step_->Save());
    }
    return WriteState();
  }

  // Whether no epoch before had a better value.
  bool IsBest(std::optional<double> value) const {
    if (!value.has_value() || std::isnan(*value)) return false;
    return !state_.best_metric.has_value() ||
           train::IsBetter(metric_, *value, *state_.best_metric);
  }

  absl::Status WriteState() {
    HEARTH_ASSIGN_OR_RETURN(state_.state, step_->Save());
    state_.peak_memory_bytes = PeakMemory();
    return WriteCheckpoint(environment_.files, options_.directory, state_);
  }

  absl::StatusOr<double> Evaluate(const char* phase, const strategy::Pass& pass,
                                  int64_t num_seeds,
                                  strategy::PassReport& report) {
    train::Tally tally;
    int64_t done = 0;
    const int64_t total =
        strategy::NumBatches(num_seeds, options_.data.batch_size);
    HEARTH_RETURN_IF_ERROR(RunPass(
        pass,
        [&](Shards shards) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(const train::BatchResult result,
                                  step_->Evaluate(shards));
          tally.Add(result.tally);
          ReportProgress(phase, ++done, total, std::nullopt);
          return absl::OkStatus();
        },
        report));
    return tally.Value(metric_);
  }

  // Since when the bytes that the process reads may be those of a pass.
  struct ReadStart {
    Census::Moment moment;
    uint64_t bytes;
  };

  ReadStart StartReading() const {
    return {environment_.census.Now(), ProcessReadBytes()};
  }

  // Adds the bytes that the kernel read on the strategy's behalf, where only
  // this job can have caused them.
  void AddBytesRead(const ReadStart& start,
                    strategy::PassReport& report) const {
    if (report.bytes_read.has_value() ||
        !environment_.census.AloneSince(start.moment)) {
      return;
    }
    report.bytes_read = static_cast<int64_t>(ProcessReadBytes() - start.bytes);
  }

  absl::Status RunPass(const strategy::Pass& pass,
                       const strategy::Strategy::Consumer& consumer,
                       strategy::PassReport& report) {
    const ReadStart start = StartReading();
    bool is_first = true;
    const absl::Status status = lease_->strategy().Run(
        pass,
        [&](Shards shards) -> absl::Status {
          if (!first_batch_seconds_.has_value()) {
            first_batch_seconds_ =
                environment_.clock.SteadySeconds() - start_seconds_;
          }
          HEARTH_RETURN_IF_ERROR(consumer(shards));
          metrics_.OnPass(report, std::exchange(is_first, false));
          return absl::OkStatus();
        },
        stop_, report);
    AddBytesRead(start, report);
    metrics_.OnPass(report, is_first);
    return status;
  }

  void ReportProgress(const char* phase, int64_t done, int64_t total,
                      std::optional<double> loss) {
    const int64_t epoch = std::min(state_.epoch + 1, options_.data.epochs);
    observer_.OnProgress({.phase = phase,
                          .done = static_cast<uint64_t>(done),
                          .total = static_cast<uint64_t>(total),
                          .epoch = static_cast<uint32_t>(epoch),
                          .epochs = static_cast<uint32_t>(options_.data.epochs),
                          .loss = loss});
  }

  uint64_t PeakMemory() {
    return std::max(state_.peak_memory_bytes, memory_->PeakBytes());
  }

  absl::StatusOr<TrainReport> Finish() {
    TrainReport report;
    report.metric = metric_;
    report.kept_epoch = static_cast<uint32_t>(state_.epoch);
    if (!state_.best_state.empty()) {
      HEARTH_RETURN_IF_ERROR(step_->Load(state_.best_state));
      report.kept_epoch = state_.best_epoch;
    }
    if (passes_->num_test() > 0) {
      HEARTH_ASSIGN_OR_RETURN(report.test_metric,
                              Evaluate("testing", passes_->Testing(),
                                       passes_->num_test(), report.test));
    }
    if (options_.HasModel()) {
      HEARTH_ASSIGN_OR_RETURN(const store::SafeTensors model, step_->Export());
      report.model_path = io::JoinPath(options_.directory, "model");
      HEARTH_RETURN_IF_ERROR(
          WriteModel(environment_.files, model, report.model_path));
    }
    report.epochs = state_.epochs;
    report.peak_memory_bytes = PeakMemory();
    report.loss_digest = LossDigest(state_.losses);
    report.resumes = state_.resumes;
    report.memory = lease_->memory();
    report.memory_bound_bytes = base_memory_bytes_ + report.memory.TotalBytes();
    report.first_batch_seconds = first_batch_seconds_;
    report.warm_start = lease_->warm();
    report.preparations = preparations_;
    return report;
  }

  const JobEnvironment& environment_;
  const TrainJobOptions& options_;
  Observer& observer_;
  TrainMetrics& metrics_;
  const std::stop_token stop_;
  const std::unique_ptr<MemorySampler> memory_;
  // What the process held before this job, and when it began.
  const uint64_t base_memory_bytes_;
  const double start_seconds_;
  std::optional<double> first_batch_seconds_;
  const Census::Resident resident_;
  std::optional<JobPasses> passes_;
  train::Metric metric_ = train::Metric::kAccuracy;
  std::unique_ptr<train::TrainStep> step_;
  std::optional<StrategyLease> lease_;
  Checkpoint state_;
  // That the strategy is prepared for; -1 = none yet.
  int64_t period_ = -1;
  std::vector<PeriodPreparation> preparations_;
  // Of the next period. Uses the lease's strategy, so it ends first.
  std::optional<AheadPreparation> ahead_;
};

}  // namespace

absl::StatusOr<TrainReport> RunTrainJob(const JobEnvironment& environment,
                                        const TrainJobOptions& options,
                                        Observer& observer,
                                        TrainMetrics& metrics,
                                        std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  return TrainRun(environment, options, observer, metrics, std::move(stop))
      .Run();
}

}  // namespace hearth::job
