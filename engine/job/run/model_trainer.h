#ifndef HEARTH_ENGINE_JOB_RUN_MODEL_TRAINER_H_
#define HEARTH_ENGINE_JOB_RUN_MODEL_TRAINER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/job/checkpoint/checkpoint.h"
#include "engine/job/data/passes.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/member.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/history.h"
#include "engine/store/dataset.h"
#include "engine/store/graph.h"
#include "engine/strategy/strategy.h"
#include "engine/train/history_cache.h"
#include "engine/train/metric.h"
#include "engine/train/train_step.h"

namespace hearth::job {

/// Trains one model on the batches that a BatchSource delivers: makes its
/// steps, checkpoints, epoch results and report. It reads no data itself, so
/// that one source can feed several trainers, each at a batch of its own.
/// Single-owner: belongs to the job's thread.
///
/// Its wishes are, for each epoch, the training pass and, if there are
/// validation nodes, the validation, after which the epoch ends; when all
/// epochs are Done(), the test, if there is one. A resumed trainer may begin
/// between two batches of an epoch, or behind the last. A trainer that only
/// tests (TrainPart::kTest) is Done() from the beginning, and writes nothing.
class ModelTrainer final : public Member {
 public:
  /// Makes a trainer with a model for `dataset`, at the position of the newest
  /// undamaged checkpoint in options.directory; the observer hears of damaged
  /// ones. `passes` give the number of batches. Holds neither parameters nor
  /// embeddings before Begin, so that memory can be reserved for them. Errors
  /// as NewModel and FindCheckpoint; FAILED_PRECONDITION if options.patience is
  /// set without validation nodes, and if the model is only to be tested and
  /// there is no checkpoint of the end of its training. All arguments but
  /// `dataset` outlive the trainer.
  static absl::StatusOr<std::unique_ptr<ModelTrainer>> Make(
      const Job& job, const store::Dataset& dataset,
      const PassSchedule& passes);
  ModelTrainer(const ModelTrainer&) = delete;
  ModelTrainer& operator=(const ModelTrainer&) = delete;

  /// Allocates the history and loads the model from the checkpoint. Errors as
  /// ReadTensors, TrainStep::Load and train::HistoryCache::Load.
  absl::Status Begin(const store::SelfLoops* self_loops) override;

  /// TrainStep::MemoryBytes, with the scores that its metric ranks and the self
  /// loops that it counts.
  uint64_t ModelBytes(const sample::BatchShape& shape) const override {
    return step_->MemoryBytes(shape) + metric_.ranking_bytes + self_loop_bytes_;
  }
  std::optional<uint64_t> BytesInPlace(
      const sample::BatchShape& shape) const override {
    return step_->BytesInPlace(shape);
  }
  uint64_t KeptBytes(const sample::BatchShape& /*shape*/) const override {
    return step_->KeptBytes() + metric_.ranking_bytes + self_loop_bytes_;
  }
  uint64_t ParameterBytes() const override { return step_->ParameterBytes(); }
  absl::Status Reserve(const sample::BatchShape& shape) override;
  strategy::MemoryEstimate gpu_memory() const override {
    return gpu_memory_.estimate();
  }

  /// Current epoch, from 0.
  int64_t epoch() const { return state_.epoch; }
  /// Whether there was no checkpoint, whole or damaged, and no batch has come.
  bool is_new() const override {
    return !found_checkpoint_ && state_.epoch == 0 && state_.next_batch == 0;
  }
  std::optional<EpochReport> TakeReport() override;
  /// Whether no epoch is left: all are trained, or patience is exhausted.
  bool Done() const;

  absl::StatusOr<Wish> Next() override;
  std::vector<sample::LiveHistory> LiveHistories() const override;

  /// Loads the best epoch's weights before a test, if early stopping chose one.
  absl::Status BeginPass(const Wish& wish) override;
  int64_t next_batch() const override;
  /// Trains on the next batch or evaluates the predictions for it. Writes a
  /// checkpoint where options.checkpoint_every wants one. ABORTED if the loss
  /// of this batch, or of one of the TrainStep::MostPending batches before it,
  /// is not a finite number.
  absl::Status Take(
      Shards shards,
      absl::FunctionRef<strategy::PassReport()> pass_so_far) override;
  void LeavePass(const strategy::PassReport& so_far) override;
  /// Ends the epoch with a checkpoint, if it is validated or needs no
  /// validation.
  absl::Status EndPass(const strategy::PassReport& report) override;

  /// Writes a checkpoint to resume from, if one is possible at this batch.
  absl::Status Stop() override;

  /// Writes the model, unless it is only tested, and reports metrics, digest
  /// and peak memory.
  absl::StatusOr<TrainReport> Finish() override;

 private:
  // The metric by which predictions are evaluated.
  struct EvaluatedMetric {
    train::Metric metric = train::Metric::kAccuracy;
    // Scores of each node that the metric ranks; 0 for metrics without ranking.
    int64_t ranked_columns = 0;
    uint64_t ranking_bytes = 0;
  };

  // Predictions evaluated so far in a validation or test.
  struct Evaluation {
    std::string phase;
    int64_t done = 0;
    int64_t num_batches = 0;
    train::Tally tally = {};
  };

  ModelTrainer(const Job& job, const EvaluatedMetric& evaluated,
               const PassSchedule& passes,
               std::unique_ptr<train::TrainStep> step);

  absl::Status FindPlace(const std::string& fingerprint);
  // Warns if earlier batches were trained with another arithmetic.
  void NoteArithmetic();
  // Notes how many machines train from here on.
  void NoteMachines();
  bool OnlyTests() const { return job_.options.part == TrainPart::kTest; }
  int64_t next_training_batch() const {
    return state_.next_batch + static_cast<int64_t>(pending_.size());
  }
  // Adds a training pass that has ended, or that it leaves.
  void AddTraining(const strategy::PassReport& report);
  absl::Status TrainBatch(Shards shards);
  absl::Status EvaluateBatch(Shards shards);
  bool CheckpointIsDue() const;
  absl::Status WriteCheckpoint(const strategy::PassReport& pass);
  absl::Status EndEpoch(const strategy::PassReport& validation);
  absl::Status KeepBest();
  std::vector<train::BatchView> WithSelfLoops(
      absl::Span<const train::BatchView> shards) const;
  absl::Status AddHistories(std::vector<train::BatchView>& shards);
  void KeepHistories(absl::Span<const train::BatchView> shards);
  // Awaits steps that have begun, until at most `most` are pending.
  absl::Status Settle(size_t most);
  bool StoppedEarly() const;
  bool CanCheckpoint() const;
  void LogComparison(const EpochReport& report);
  absl::Status CloseEpoch(const EpochReport& report);
  bool IsBest(std::optional<double> value) const;
  absl::Status WriteState();
  void StartEvaluation(const std::string& phase, int64_t nodes);
  std::optional<double> TakeMetric();
  void ReportProgress(const std::string& phase, int64_t done, int64_t total,
                      std::optional<double> loss);
  uint64_t PeakMemory();

  const Job job_;
  const EvaluatedMetric metric_;
  const PassSchedule& passes_;
  const int64_t num_batches_;
  // Steps that have begun and are not yet counted in `state_`.
  std::deque<train::AwaitResult> pending_;
  // Declared before the step, whose memory it reserves, to be destroyed after
  // it.
  MemoryLedger::Reservation gpu_memory_;
  const std::unique_ptr<train::TrainStep> step_;
  // Whether there are checkpoints, whole or damaged; whether Begin loads one.
  bool found_checkpoint_ = false;
  bool goes_on_ = false;
  // State that must survive a kill.
  Checkpoint state_;
  // Pass that it takes part in, or has ended last.
  Wish::Kind pass_ = Wish::Kind::kNothing;
  // Whether the observer has yet to hear of state_.last_epoch.
  bool report_pending_ = true;
  // Whether the current epoch is trained, but not yet validated.
  bool is_trained_ = false;
  // Bytes of features that it read in training passes.
  uint64_t bytes_read_ = 0;
  // The test pass, once it has ended.
  std::optional<strategy::PassReport> test_;
  std::optional<Evaluation> evaluation_;
  // Phases whose metric the log has called undefined.
  std::set<std::string> undefined_;
  // Null without a history, and before Begin.
  std::unique_ptr<train::HistoryCache> histories_;
  int64_t staleness_ = 0;
  // Null if no node has a self loop, or the model does not count them.
  const store::SelfLoops* self_loops_ = nullptr;
  uint64_t self_loop_bytes_ = 0;
  // Buffers behind train::LayerRows.
  struct TopRows {
    std::vector<float> pulled;
    std::vector<float> pushed;
    std::vector<float> pulled_gradients;
    std::vector<float> pushed_gradients;
  };
  // Indexed by shard of a batch.
  std::vector<TopRows> top_rows_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_MODEL_TRAINER_H_
