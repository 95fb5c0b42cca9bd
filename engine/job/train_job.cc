// A train job, step by step:
//   1. open the dataset, load labels and split, prepare the strategy, make the
//      model; go on from the checkpoint if there is one;
//   2. for each epoch: check that the dataset's files are unchanged, train on
//      its batches from next_batch on, validate, report, write a checkpoint;
//   3. restore the best epoch's weights if early stopping chose one, test,
//      write the model, report.
// Everything that must survive a kill is in `state_` (a Checkpoint). A batch's
// loss enters it together with the batch number, so that a replayed batch
// counts once.
#include "engine/job/train_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/base/process.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/job/checkpoint.h"
#include "engine/job/export_model.h"
#include "engine/job/labeled_split.h"
#include "engine/job/memory_sampler.h"
#include "engine/job/strategy_lease.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/strategy.h"
#include "engine/train/metric.h"

namespace hearth::job {
namespace {

// Epoch keys of the passes that are sampled once; no training epoch has them.
constexpr uint64_t kValidationKey = UINT64_MAX;
constexpr uint64_t kTestKey = UINT64_MAX - 1;

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
    HEARTH_RETURN_IF_ERROR(Prepare());
    HEARTH_RETURN_IF_ERROR(Resume());
    observer_.OnRunning();
    LogStart();
    absl::StatusOr<TrainReport> report = TrainAndTest();
    if (absl::IsCancelled(report.status()) && CanCheckpoint()) {
      HEARTH_RETURN_IF_ERROR(WriteState());
      observer_.OnLog(Severity::kInfo,
                      absl::StrFormat("stopped at epoch %d, batch %d",
                                      state_.epoch + 1, state_.next_batch));
    }
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

  absl::Status Prepare() {
    HEARTH_RETURN_IF_ERROR(
        environment_.files.CreateDirectory(options_.directory));
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<store::Dataset> dataset,
        store::Dataset::Open(environment_.files, options_.data.dataset_path));
    HEARTH_RETURN_IF_ERROR(CheckTrainable(*dataset));
    HEARTH_ASSIGN_OR_RETURN(const store::Labels labels, dataset->LoadLabels());
    HEARTH_RETURN_IF_ERROR(SetOrders(*dataset, labels));
    const store::NodeTypeEntry& nodes = dataset->manifest().node_types[0];
    metric_ = train::MetricFor(nodes.label_kind);
    HEARTH_ASSIGN_OR_RETURN(
        step_,
        environment_.new_train_step(
            options_.train,
            {.feature_dim = nodes.features.shape[1],
             .label_kind = nodes.label_kind,
             .label_width = nodes.label_width,
             .num_layers = static_cast<int64_t>(options_.data.fanouts.size()),
             .trainers = options_.data.trainers}));
    const std::vector<strategy::Pass> passes = {
        MakePass(*train_order_, /*epoch_key=*/0),
        MakePass(*valid_order_, kValidationKey),
        MakePass(*test_order_, kTestKey)};
    HEARTH_ASSIGN_OR_RETURN(
        lease_,
        StrategyLease::Take(environment_, std::move(dataset),
                            {.options = options_,
                             .labels = labels,
                             .passes = passes,
                             .model_bytes =
                                 [this](const sample::BatchShape& shape) {
                                   return step_->MemoryBytes(shape);
                                 }},
                            observer_, stop_));
    return lease_->strategy().Prepare(
        AllPasses(),
        [this](const std::string& text) {
          observer_.OnLog(Severity::kInfo, text);
        },
        stop_);
  }

  // Those that are going to be run, each once.
  std::vector<strategy::Pass> AllPasses() const {
    std::vector<strategy::Pass> passes;
    const int64_t keys = std::min(NumEpochKeys(), options_.data.epochs);
    for (int64_t key = 0; key < keys; ++key) {
      passes.push_back(MakePass(*train_order_, static_cast<uint64_t>(key)));
    }
    if (num_valid_ > 0) {
      passes.push_back(MakePass(*valid_order_, kValidationKey));
    }
    if (num_test_ > 0) passes.push_back(MakePass(*test_order_, kTestKey));
    return passes;
  }

  int64_t NumEpochKeys() const {
    return options_.data.distinct_epochs > 0 ? options_.data.distinct_epochs
                                             : options_.data.epochs;
  }

  // The nodes of each pass: those of the split that have labels.
  absl::Status SetOrders(const store::Dataset& dataset,
                         const store::Labels& labels) {
    HEARTH_ASSIGN_OR_RETURN(store::Split split, dataset.LoadSplit());
    // A job without a model measures the data path of training alone.
    if (std::holds_alternative<train::NoModelOptions>(options_.train.model)) {
      split.valid.clear();
      split.test.clear();
    }
    HEARTH_ASSIGN_OR_RETURN(LabeledSplit labeled,
                            WithoutUnlabeled(std::move(split), labels));
    for (const std::string& warning : labeled.warnings) {
      observer_.OnLog(Severity::kWarning, warning);
    }
    split = std::move(labeled.nodes);
    num_train_ = static_cast<int64_t>(split.train.size());
    train_order_ = sample::NewShuffledOrder(std::move(split.train),
                                            options_.data.data_seed);
    num_valid_ = static_cast<int64_t>(split.valid.size());
    num_test_ = static_cast<int64_t>(split.test.size());
    valid_order_ = sample::NewSequentialOrder(std::move(split.valid));
    test_order_ = sample::NewSequentialOrder(std::move(split.test));
    return absl::OkStatus();
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
        absl::StrFormat(
            "dataset %s (%s), strategy %s: %d training nodes, %d "
            "batches an epoch",
            manifest.name, manifest.fingerprint,
            strategy::Name(options_.data.strategy), num_train_,
            strategy::NumBatches(num_train_, options_.data.batch_size)));
  }

  bool StoppedEarly() const {
    return options_.patience > 0 && state_.best_epoch > 0 &&
           state_.epoch - state_.best_epoch >= options_.patience;
  }

  absl::Status RunEpoch() {
    HEARTH_RETURN_IF_ERROR(lease_->dataset().CheckUnchanged());
    HEARTH_RETURN_IF_ERROR(TrainEpoch());
    EpochReport report;
    report.epoch = static_cast<uint32_t>(state_.epoch + 1);
    report.loss = state_.epoch_loss_sum /
                  static_cast<double>(std::max<int64_t>(state_.epoch_seeds, 1));
    report.training = state_.epoch_training;
    report.metric = metric_;
    if (num_valid_ > 0) {
      HEARTH_ASSIGN_OR_RETURN(report.valid_metric,
                              Evaluate("validating", *valid_order_, num_valid_,
                                       kValidationKey, report.validation));
    }
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
    const int64_t num_batches =
        strategy::NumBatches(num_train_, options_.data.batch_size);
    if (state_.next_batch >= num_batches) return absl::OkStatus();
    strategy::Pass pass = MakePass(
        *train_order_, static_cast<uint64_t>(state_.epoch % NumEpochKeys()));
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

  absl::StatusOr<double> Evaluate(const char* phase,
                                  const sample::SeedOrder& order,
                                  int64_t num_seeds, uint64_t key,
                                  strategy::PassReport& report) {
    train::Tally tally;
    int64_t done = 0;
    const int64_t total =
        strategy::NumBatches(num_seeds, options_.data.batch_size);
    HEARTH_RETURN_IF_ERROR(RunPass(
        MakePass(order, key),
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

  strategy::Pass MakePass(const sample::SeedOrder& order,
                          uint64_t epoch_key) const {
    return {.order = &order,
            .sampler = {.fanouts = options_.data.fanouts,
                        .data_seed = options_.data.data_seed},
            .batch_size = options_.data.batch_size,
            .shards = options_.data.trainers,
            .epoch_key = epoch_key,
            .batches = lease_.has_value() ? std::optional(lease_->batches())
                                          : std::nullopt};
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
    if (num_test_ > 0) {
      HEARTH_ASSIGN_OR_RETURN(
          report.test_metric,
          Evaluate("testing", *test_order_, num_test_, kTestKey, report.test));
    }
    if (!std::holds_alternative<train::NoModelOptions>(options_.train.model)) {
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
  std::unique_ptr<sample::SeedOrder> train_order_;
  std::unique_ptr<sample::SeedOrder> valid_order_;
  std::unique_ptr<sample::SeedOrder> test_order_;
  train::Metric metric_ = train::Metric::kAccuracy;
  int64_t num_train_ = 0;
  int64_t num_valid_ = 0;
  int64_t num_test_ = 0;
  std::unique_ptr<train::TrainStep> step_;
  std::optional<StrategyLease> lease_;
  Checkpoint state_;
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
