// A trainer's life, step by step:
//   1. Make: find the checkpoint, if there is one, and the position to continue
//      from. Once memory is reserved, Begin: load the checkpoint's tensors;
//      parameters that no checkpoint has are made by the first batch.
//   2. For each epoch: the training pass from next_batch() on, with checkpoints
//      between batches where they are due, then the validation; EndEpoch writes
//      a checkpoint.
//   3. KeepBest loads the best epoch's weights if early stopping kept any; the
//      test, if there is one; Finish writes the model.
// Everything that must survive a kill is in `state_` (a Checkpoint), except the
// reports of epochs before the last one, which the observer has kept. A batch's
// loss enters it together with the batch number, so that a replayed batch
// counts once.
#include "engine/job/run/model_trainer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/byte_size.h"
#include "engine/base/process.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/job/checkpoint/export_model.h"
#include "engine/job/data/opened_job.h"
#include "engine/job/data/strategy_lease.h"
#include "engine/store/manifest.h"

namespace hearth::job {
namespace {

// Appends a loss to the digest.
void AddLoss(float loss, Sha256& losses) {
  losses.Update(absl::Span<const std::byte>(
      reinterpret_cast<const std::byte*>(&loss), sizeof(loss)));
}

// Text of Checkpoint::arithmetic.
std::string Arithmetic(const train::TrainStep& step, std::optional<int> gpu) {
  std::string text =
      absl::StrCat(train::kNumericsVersion, " ", train::Name(step.precision()));
  if (gpu.has_value()) absl::StrAppend(&text, " cuda");
  return text;
}

// FAILED_PRECONDITION if early stopping lacks validation nodes.
absl::Status CheckPatience(const TrainJobOptions& options,
                           const store::Manifest& manifest,
                           const PassSchedule& passes) {
  if (options.patience == 0 || passes.num_valid() > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("patience: must be 0: dataset ", manifest.name,
                   " has no validation nodes with labels, by which epochs "
                   "would be compared"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelTrainer>> ModelTrainer::Make(
    const Job& job, const store::Dataset& dataset, const PassSchedule& passes) {
  HEARTH_RETURN_IF_ERROR(
      CheckPatience(job.options, dataset.manifest(), passes));
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<train::TrainStep> step,
      NewModel(job.environment, job.options, dataset, passes));
  const store::NodeTypeEntry& nodes =
      dataset.manifest().node_types[dataset.target_type()];
  const train::Metric metric = job.options.train.MetricFor(nodes.label_kind);
  const EvaluatedMetric evaluated = {
      .metric = metric,
      .ranked_columns =
          train::IsRanking(metric)
              ? train::RankedColumns(nodes.label_kind, nodes.label_width)
              : 0,
      .ranking_bytes = RankingBytes(job.options, dataset, passes)};
  std::unique_ptr<ModelTrainer> trainer(
      new ModelTrainer(job, evaluated, passes, std::move(step)));
  trainer->self_loop_bytes_ = SelfLoopBytes(job.options, dataset);
  HEARTH_RETURN_IF_ERROR(trainer->FindPlace(dataset.manifest().fingerprint));
  return trainer;
}

ModelTrainer::ModelTrainer(const Job& job, const EvaluatedMetric& evaluated,
                           const PassSchedule& passes,
                           std::unique_ptr<train::TrainStep> step)
    : job_(job),
      metric_(evaluated),
      passes_(passes),
      num_batches_(strategy::NumBatches(passes.num_train(),
                                        job.options.data.batch_size)),
      step_(std::move(step)) {}

absl::Status ModelTrainer::Reserve(const sample::BatchShape& shape) {
  strategy::MemoryEstimate estimate;
  AddGpuShare(job_.options.train, *step_, shape, estimate);
  if (estimate.shares.empty()) return absl::OkStatus();
  job_.observer.OnLog(
      Severity::kInfo,
      absl::StrCat("memory of ", train::DeviceName(job_.options.train.gpu),
                   ": at most ", FormatByteSize(estimate.shares[0].bytes)));
  return job_.environment.memory.Reserve(estimate, gpu_memory_);
}

absl::Status ModelTrainer::FindPlace(const std::string& fingerprint) {
  HEARTH_ASSIGN_OR_RETURN(FoundCheckpoint found,
                          FindCheckpoint(job_.environment.files,
                                         job_.options.directory, fingerprint));
  found_checkpoint_ = found.checkpoint.has_value() || !found.damages.empty();
  for (const std::string& damage : found.damages) {
    job_.observer.OnLog(Severity::kWarning,
                        absl::StrCat(damage, "; this checkpoint is not used"));
  }
  if (OnlyTests() && !found.checkpoint.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        job_.options.directory,
        " has no undamaged checkpoint: the model cannot be tested"));
  }
  if (!found.checkpoint.has_value()) {
    state_.fingerprint = fingerprint;
    state_.arithmetic = Arithmetic(*step_, job_.options.train.gpu);
    NoteMachines();
    if (!found.damages.empty()) {
      job_.observer.OnLog(Severity::kWarning,
                          "no checkpoint is whole: training from the start");
    }
    return absl::OkStatus();
  }
  state_ = *std::move(found.checkpoint);
  goes_on_ = true;
  // Checkpoints of version 3 have no fingerprint.
  state_.fingerprint = fingerprint;
  if (OnlyTests()) {
    state_.peak_memory_bytes = 0;
    if (Done()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s has no checkpoint of the end of training: the last one that is "
        "whole is of epoch %d, batch %d",
        job_.options.directory, state_.epoch + 1, state_.next_batch));
  }
  if (job_.continues) {
    report_pending_ = false;
    return absl::OkStatus();
  }
  ++state_.resumes;
  NoteArithmetic();
  NoteMachines();
  job_.observer.OnLog(Severity::kInfo,
                      absl::StrFormat("going on from epoch %d, batch %d",
                                      state_.epoch + 1, state_.next_batch));
  return absl::OkStatus();
}

absl::Status ModelTrainer::Begin(const store::SelfLoops* self_loops) {
  self_loops_ = self_loops;
  if (const sample::HistoryPolicy* history = passes_.Training(0).history;
      history != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(
        histories_,
        train::HistoryCache::Make(history->candidates, step_->TopWidth(),
                                  !job_.options.data.history->stop_gradients));
    staleness_ = history->staleness;
  }
  if (!goes_on_) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(
      ReadTensors(job_.environment.files, job_.options.directory, state_));
  HEARTH_RETURN_IF_ERROR(step_->Load(state_.state));
  state_.state.clear();
  if (histories_ != nullptr && !state_.histories.empty()) {
    HEARTH_RETURN_IF_ERROR(histories_->Load(state_.histories));
  }
  state_.histories.clear();
  return absl::OkStatus();
}

void ModelTrainer::NoteArithmetic() {
  std::string arithmetic = Arithmetic(*step_, job_.options.train.gpu);
  if (state_.arithmetic != arithmetic) {
    job_.observer.OnLog(
        Severity::kWarning,
        absl::StrCat("the checkpoint was trained with arithmetic ",
                     state_.arithmetic.empty() ? "of an older version"
                                               : state_.arithmetic,
                     ", this is ", arithmetic,
                     ": the rest differs in rounding from a job that was not "
                     "interrupted"));
  }
  state_.arithmetic = std::move(arithmetic);
}

void ModelTrainer::NoteMachines() {
  const BatchOptions& data = job_.options.data;
  const int64_t now = std::max<int64_t>(1, data.window.all / data.trainers);
  std::vector<MachineChange>& machines = state_.machines;
  const bool is_new = state_.epoch == 0 && state_.next_batch == 0;
  if (machines.empty() && now == 1) return;
  if (is_new) {
    machines = {{.machines = now}};
    return;
  }
  // The checkpoint is of one machine.
  if (machines.empty()) machines.push_back({.machines = 1});
  if (machines.back().machines == now) return;
  machines.push_back(
      {.epoch = state_.epoch, .batch = state_.next_batch, .machines = now});
}

bool ModelTrainer::StoppedEarly() const {
  return job_.options.patience > 0 && state_.best_epoch > 0 &&
         state_.epoch - state_.best_epoch >= job_.options.patience;
}

bool ModelTrainer::Done() const {
  return state_.epoch >= job_.options.data.epochs || StoppedEarly();
}

absl::StatusOr<Wish> ModelTrainer::Next() {
  Wish wish = {.epoch = state_.epoch};
  if (Done()) {
    const bool tests = job_.options.part != TrainPart::kTraining &&
                       passes_.num_test() > 0 && !test_.has_value();
    wish.kind = tests ? Wish::Kind::kTest : Wish::Kind::kDone;
  } else if (is_trained_) {
    wish.kind = Wish::Kind::kValidation;
  } else {
    wish.kind = Wish::Kind::kTraining;
    wish.first_batch = next_training_batch();
  }
  return wish;
}

std::optional<EpochReport> ModelTrainer::TakeReport() {
  if (OnlyTests() || !std::exchange(report_pending_, false)) {
    return std::nullopt;
  }
  return state_.last_epoch;
}

absl::Status ModelTrainer::BeginPass(const Wish& wish) {
  pass_ = wish.kind;
  if (pass_ == Wish::Kind::kValidation) {
    StartEvaluation("validating", passes_.num_valid());
  } else if (pass_ == Wish::Kind::kTest) {
    HEARTH_RETURN_IF_ERROR(KeepBest());
    StartEvaluation("testing", passes_.num_test());
  }
  return absl::OkStatus();
}

int64_t ModelTrainer::next_batch() const {
  return pass_ == Wish::Kind::kTraining ? next_training_batch()
                                        : evaluation_->done;
}

absl::Status ModelTrainer::Take(
    Shards shards, absl::FunctionRef<strategy::PassReport()> pass_so_far) {
  if (pass_ != Wish::Kind::kTraining) return EvaluateBatch(shards);
  HEARTH_RETURN_IF_ERROR(TrainBatch(shards));
  return CheckpointIsDue() ? WriteCheckpoint(pass_so_far()) : absl::OkStatus();
}

void ModelTrainer::LeavePass(const strategy::PassReport& so_far) {
  evaluation_.reset();
  if (pass_ == Wish::Kind::kTraining) {
    AddTraining(so_far);
  }
}

void ModelTrainer::AddTraining(const strategy::PassReport& report) {
  strategy::Accumulate(report, state_.epoch_training);
  bytes_read_ += static_cast<uint64_t>(report.bytes_read.value_or(0));
}

absl::Status ModelTrainer::EndPass(const strategy::PassReport& report) {
  if (pass_ == Wish::Kind::kTest) {
    test_ = report;
    return absl::OkStatus();
  }
  if (pass_ == Wish::Kind::kValidation) return EndEpoch(report);
  AddTraining(report);
  is_trained_ = true;
  return passes_.num_valid() > 0 ? absl::OkStatus() : EndEpoch({});
}

absl::Status ModelTrainer::TrainBatch(Shards shards) {
  const train::StepPosition position = {
      .epoch = static_cast<uint64_t>(state_.epoch),
      .batch = static_cast<uint64_t>(next_training_batch())};
  std::vector<train::BatchView> views = WithSelfLoops(shards);
  HEARTH_RETURN_IF_ERROR(AddHistories(views));
  HEARTH_ASSIGN_OR_RETURN(train::AwaitResult result,
                          step_->BeginTrain(views, position));
  KeepHistories(views);
  pending_.push_back(std::move(result));
  const bool is_last = next_training_batch() == num_batches_;
  return Settle(is_last ? 0 : static_cast<size_t>(step_->MostPending()));
}

absl::Status ModelTrainer::Settle(size_t most) {
  while (pending_.size() > most) {
    const train::AwaitResult await = std::move(pending_.front());
    pending_.pop_front();
    HEARTH_ASSIGN_OR_RETURN(const train::BatchResult result, await());
    if (!std::isfinite(result.loss)) {
      return absl::AbortedError(absl::StrFormat(
          "training diverged: the loss of epoch %d, batch %d is %f; a smaller "
          "learning_rate may help",
          state_.epoch + 1, state_.next_batch, result.loss));
    }
    AddLoss(result.loss, state_.losses);
    state_.epoch_loss_sum += static_cast<double>(result.loss) *
                             static_cast<double>(result.num_seeds);
    state_.epoch_seeds += result.num_seeds;
    ++state_.next_batch;
    job_.metrics.OnBatch(result.loss);
    ReportProgress("training", state_.next_batch, num_batches_, result.loss);
  }
  return absl::OkStatus();
}

std::vector<sample::LiveHistory> ModelTrainer::LiveHistories() const {
  if (histories_ == nullptr) return {};
  return histories_->Live(state_.next_batch, staleness_);
}

std::vector<train::BatchView> ModelTrainer::WithSelfLoops(
    absl::Span<const train::BatchView> shards) const {
  std::vector<train::BatchView> views(shards.begin(), shards.end());
  for (train::BatchView& view : views) view.self_loops = self_loops_;
  return views;
}

// Gives each shard the embeddings that it pulls and the gradients of the
// embeddings that it pushes, and buffers for the step's results: embeddings
// that it pushes, and gradients of the embeddings that it pulled.
absl::Status ModelTrainer::AddHistories(std::vector<train::BatchView>& views) {
  if (histories_ == nullptr) return absl::OkStatus();
  top_rows_.resize(views.size());
  const auto width = static_cast<size_t>(histories_->width());
  for (size_t i = 0; i < views.size(); ++i) {
    const sample::TopLayer& top = *views[i].sample.top;
    TopRows& rows = top_rows_[i];
    rows.pulled.resize(top.pulled.size() * width);
    rows.pushed.resize(top.pushed.size() * width);
    HEARTH_RETURN_IF_ERROR(histories_->Pull(top, rows.pulled.data()));
    views[i].top_rows = {.width = histories_->width(),
                         .pulled = rows.pulled.data(),
                         .pushed = rows.pushed.data()};
    if (!histories_->keeps_gradients()) continue;
    rows.pulled_gradients.resize(rows.pulled.size());
    rows.pushed_gradients.resize(rows.pushed.size());
    histories_->TakeGradients(top, rows.pushed_gradients.data());
    views[i].top_rows.pulled_gradients = rows.pulled_gradients.data();
    views[i].top_rows.pushed_gradients = rows.pushed_gradients.data();
  }
  return absl::OkStatus();
}

void ModelTrainer::KeepHistories(absl::Span<const train::BatchView> shards) {
  if (histories_ == nullptr) return;
  for (const train::BatchView& shard : shards) {
    const sample::TopLayer& top = *shard.sample.top;
    histories_->Push(top, state_.next_batch, shard.top_rows.pushed);
    if (histories_->keeps_gradients()) {
      histories_->AddGradients(top, shard.top_rows.pulled_gradients);
    }
  }
}

// A strategy that reorders batches can only be resumed at the beginning of an
// epoch: the batches done are not the first ones of its order.
bool ModelTrainer::CanCheckpoint() const {
  return next_training_batch() == 0 ||
         strategy::DeliversInOrder(job_.options.data.strategy);
}

// Whether options.checkpoint_every wants a checkpoint after this batch.
bool ModelTrainer::CheckpointIsDue() const {
  const int64_t every = job_.options.checkpoint_every;
  // The end of the epoch has a checkpoint of its own.
  return every > 0 && CanCheckpoint() && next_training_batch() % every == 0 &&
         next_training_batch() < num_batches_;
}

// Writes a checkpoint between two batches. `pass` is the report of the running
// training pass so far.
absl::Status ModelTrainer::WriteCheckpoint(const strategy::PassReport& pass) {
  HEARTH_RETURN_IF_ERROR(Settle(0));
  strategy::PassReport before = state_.epoch_training;
  strategy::Accumulate(pass, state_.epoch_training);
  const absl::Status status = WriteState();
  // The pass continues; its end adds the whole report.
  state_.epoch_training = std::move(before);
  return status;
}

void ModelTrainer::StartEvaluation(const std::string& phase, int64_t nodes) {
  evaluation_ = Evaluation{
      .phase = phase,
      .num_batches = strategy::NumBatches(nodes, job_.options.data.batch_size)};
  evaluation_->tally.ranking.scores.reserve(
      static_cast<size_t>(nodes * metric_.ranked_columns));
}

absl::Status ModelTrainer::EvaluateBatch(Shards shards) {
  HEARTH_ASSIGN_OR_RETURN(const train::BatchResult result,
                          step_->Evaluate(WithSelfLoops(shards)));
  evaluation_->tally.Add(result.tally);
  ReportProgress(evaluation_->phase, ++evaluation_->done,
                 evaluation_->num_batches, std::nullopt);
  return absl::OkStatus();
}

// Metric of the evaluation that has just ended; nullopt if there was none.
std::optional<double> ModelTrainer::TakeMetric() {
  const std::optional<Evaluation> evaluation =
      std::exchange(evaluation_, std::nullopt);
  if (!evaluation.has_value()) return std::nullopt;
  const double value = evaluation->tally.Value(metric_.metric);
  if (std::isnan(value) && train::IsRanking(metric_.metric) &&
      undefined_.insert(evaluation->phase).second) {
    const auto& scores = evaluation->tally.ranking.scores;
    const bool has_diverged =
        std::any_of(scores.begin(), scores.end(),
                    [](const auto& one) { return std::isnan(one.score); });
    job_.observer.OnLog(
        Severity::kWarning,
        absl::StrCat(
            evaluation->phase, ": ", train::Name(metric_.metric),
            " is not defined: ",
            has_diverged
                ? "the model's scores are not all numbers (it has diverged)"
                : "no class or label has nodes with and without it"));
  }
  return value;
}

// Closes the epoch with a checkpoint. `validation` is the report of the
// validation pass, if there was one.
absl::Status ModelTrainer::EndEpoch(const strategy::PassReport& validation) {
  EpochReport report;
  report.epoch = static_cast<uint32_t>(state_.epoch + 1);
  report.loss = state_.epoch_loss_sum /
                static_cast<double>(std::max<int64_t>(state_.epoch_seeds, 1));
  report.training = state_.epoch_training;
  report.metric = metric_.metric;
  report.valid_metric = TakeMetric();
  report.validation = validation;
  if (static_cast<size_t>(state_.epoch) < job_.exact.size()) {
    report.exact = job_.exact[static_cast<size_t>(state_.epoch)];
    LogComparison(report);
  }
  job_.metrics.OnEpoch(report);
  HEARTH_RETURN_IF_ERROR(CloseEpoch(report));
  if (StoppedEarly()) {
    job_.observer.OnLog(
        Severity::kInfo,
        absl::StrFormat("validation %s has not improved for %d epochs: "
                        "keeping epoch %d",
                        train::Name(metric_.metric), job_.options.patience,
                        state_.best_epoch));
  }
  return absl::OkStatus();
}

void ModelTrainer::LogComparison(const EpochReport& report) {
  job_.observer.OnLog(
      Severity::kInfo,
      absl::StrFormat("epoch %d: validation %s %.4f with a history, %.4f "
                      "without; loss %.4f, %.4f",
                      report.epoch, train::Name(metric_.metric),
                      report.valid_metric.value_or(0),
                      report.exact->valid_metric.value_or(0), report.loss,
                      report.exact->loss));
}

absl::Status ModelTrainer::CloseEpoch(const EpochReport& report) {
  state_.last_epoch = report;
  report_pending_ = true;
  ++state_.epoch;
  state_.next_batch = 0;
  state_.epoch_loss_sum = 0;
  state_.epoch_seeds = 0;
  state_.epoch_training = {};
  is_trained_ = false;
  if (histories_ != nullptr) histories_->Clear();
  if (job_.options.patience > 0 && IsBest(report.valid_metric)) {
    state_.best_metric = report.valid_metric;
    state_.best_epoch = report.epoch;
    HEARTH_ASSIGN_OR_RETURN(state_.best_state, step_->Save());
  }
  return WriteState();
}

// Whether no earlier epoch had a better value.
bool ModelTrainer::IsBest(std::optional<double> value) const {
  if (!value.has_value() || std::isnan(*value)) return false;
  return !state_.best_metric.has_value() ||
         train::IsBetter(metric_.metric, *value, *state_.best_metric);
}

absl::Status ModelTrainer::WriteState() {
  HEARTH_ASSIGN_OR_RETURN(state_.state, step_->Save());
  state_.peak_memory_bytes = PeakMemory();
  if (histories_ != nullptr && !Done()) {
    state_.histories = histories_->Save(LiveHistories());
  }
  const absl::Status written = job::WriteCheckpoint(
      job_.environment.files, job_.options.directory, state_);
  // Of several machines, the first one's checkpoints count; others have copies.
  if (job_.options.data.window.first == 0) HEARTH_RETURN_IF_ERROR(written);
  // The bound counts what was saved, or the next step's memory.
  ReleaseFreePages();
  if (written.ok()) {
    job_.observer.OnDurable();
  } else {
    job_.observer.OnLog(
        Severity::kWarning,
        absl::StrCat("no copy of the checkpoint: ", written.message()));
  }
  return absl::OkStatus();
}

absl::Status ModelTrainer::Stop() {
  if (OnlyTests() || !CanCheckpoint()) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(Settle(0));
  HEARTH_RETURN_IF_ERROR(WriteState());
  job_.observer.OnLog(Severity::kInfo,
                      absl::StrFormat("stopped at epoch %d, batch %d",
                                      state_.epoch + 1, state_.next_batch));
  return absl::OkStatus();
}

// Loads the best epoch's weights, if early stopping chose one.
absl::Status ModelTrainer::KeepBest() {
  if (state_.best_state.empty()) return absl::OkStatus();
  return step_->Load(state_.best_state);
}

absl::StatusOr<TrainReport> ModelTrainer::Finish() {
  if (!test_.has_value()) HEARTH_RETURN_IF_ERROR(KeepBest());
  TrainReport report;
  report.metric = metric_.metric;
  report.kept_epoch = state_.best_state.empty()
                          ? static_cast<uint32_t>(state_.epoch)
                          : state_.best_epoch;
  report.test_metric = TakeMetric();
  report.test = test_.value_or(strategy::PassReport());
  if (job_.options.HasModel() && !OnlyTests()) {
    HEARTH_ASSIGN_OR_RETURN(const store::SafeTensors model, step_->Export());
    report.model_path = io::JoinPath(job_.options.directory, "model");
    HEARTH_RETURN_IF_ERROR(
        WriteModel(job_.environment.files, model, report.model_path));
  }
  report.peak_memory_bytes = PeakMemory();
  report.loss_digest = state_.losses.HexDigest();
  report.precision = step_->precision();
  report.gpu = job_.options.train.gpu;
  report.resumes = state_.resumes;
  report.bytes_read = bytes_read_;
  if (!state_.machines.empty()) {
    report.machine_changes.assign(state_.machines.begin() + 1,
                                  state_.machines.end());
  }
  return report;
}

void ModelTrainer::ReportProgress(const std::string& phase, int64_t done,
                                  int64_t total, std::optional<double> loss) {
  const int64_t epochs = job_.options.data.epochs;
  job_.observer.OnProgress(
      {.phase = phase,
       .done = static_cast<uint64_t>(done),
       .total = static_cast<uint64_t>(total),
       .epoch = static_cast<uint32_t>(std::min(state_.epoch + 1, epochs)),
       .epochs = static_cast<uint32_t>(epochs),
       .loss = loss});
}

uint64_t ModelTrainer::PeakMemory() {
  return std::max(state_.peak_memory_bytes, job_.memory.PeakBytes());
}

}  // namespace hearth::job
