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
/// that one source can feed several trainers, each at a batch of its own. An
/// error of a call concerns this trainer alone. Single-owner: belongs to the
/// job's thread.
///
/// States, with the calls that lead from one to the next:
///   made --Begin--> between epochs
///   between epochs --TrainBatch...EndTraining--> trained
///   trained --[StartValidation, EvaluateBatch...]--EndEpoch--> between epochs
///   between epochs, Done() --KeepBest--[StartTest, EvaluateBatch...]--Finish
/// A resumed trainer may begin between two batches of an epoch, or trained. A
/// trainer that only tests (TrainPart::kTest) is Done() from the beginning, and
/// writes nothing.
class ModelTrainer {
 public:
  /// The job whose model is trained: its options, its listeners, and the parts
  /// of the process that it uses.
  struct Job {
    const JobEnvironment& environment;
    const TrainJobOptions& options;
    Observer& observer;
    TrainMetrics& metrics;
    MemorySampler& memory;
    /// First epochs trained without the history, to report beside the epochs
    /// with it; outlives the trainer.
    absl::Span<const ExactEpoch> exact = {};
  };

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

  /// Takes the memory that is reserved: allocates the history and loads the
  /// model from the checkpoint. Call once, before all calls below. `self_loops`
  /// of the dataset outlive this; null: no node has a self loop, or the model
  /// does not count them. Errors as ReadTensors, TrainStep::Load and
  /// train::HistoryCache::Load.
  absl::Status Begin(const store::SelfLoops* self_loops);

  /// Bytes that the model takes for batches of `shape`
  /// (TrainStep::MemoryBytes), with the scores that its metric ranks and the
  /// self loops that it counts.
  uint64_t ModelBytes(const sample::BatchShape& shape) const {
    return step_->MemoryBytes(shape) + metric_.ranking_bytes + self_loop_bytes_;
  }
  /// Part of ModelBytes that stays allocated between batches
  /// (TrainStep::KeptBytes).
  uint64_t KeptBytes() const {
    return step_->KeptBytes() + metric_.ranking_bytes + self_loop_bytes_;
  }
  /// Bytes of the model's parameters (TrainStep::ParameterBytes).
  uint64_t ParameterBytes() const { return step_->ParameterBytes(); }
  /// Reserves memory of the GPU that trains the model, if one does, for batches
  /// of `shape`, for the trainer's lifetime. Errors as MemoryLedger::Reserve.
  absl::Status ReserveGpu(const sample::BatchShape& shape);
  /// The reservation of ReserveGpu; empty without a GPU.
  const strategy::MemoryEstimate& gpu_memory() const {
    return gpu_memory_.estimate();
  }

  /// Current epoch, from 0, and the batch of it that is trained next.
  int64_t epoch() const { return state_.epoch; }
  int64_t next_batch() const {
    return state_.next_batch + static_cast<int64_t>(pending_.size());
  }
  /// Number of training batches of an epoch.
  int64_t NumBatches() const { return num_batches_; }
  /// Whether nothing was trained before: there was no checkpoint, whole or
  /// damaged, and no batch has come.
  bool is_new() const {
    return !found_checkpoint_ && state_.epoch == 0 && state_.next_batch == 0;
  }
  /// Report of the last ended epoch, for the observer; absent before the first.
  /// A resumed trainer has it, too: the job may have been killed between the
  /// epoch's checkpoint and its report.
  const std::optional<EpochReport>& last_epoch() const {
    return state_.last_epoch;
  }
  /// Whether no epoch is left: all are trained, or patience is exhausted.
  bool Done() const;

  /// Embeddings of earlier batches of the epoch that the next batch may use;
  /// none without a history.
  std::vector<sample::LiveHistory> LiveHistories() const;

  /// Trains on the next batch, given as its shards. ABORTED if the loss of this
  /// batch, or of one of the TrainStep::MostPending batches before it, is not a
  /// finite number.
  absl::Status TrainBatch(absl::Span<const train::BatchView> shards);

  /// Whether options.checkpoint_every wants a checkpoint after this batch.
  bool CheckpointIsDue() const;

  /// Writes a checkpoint between two batches. `pass` is the report of the
  /// running training pass so far.
  absl::Status WriteCheckpoint(const strategy::PassReport& pass);

  /// Ends the epoch's training pass, or the part of it that was run.
  void EndTraining(const strategy::PassReport& pass);

  /// Announces that the next batches are for validation, or for the test.
  void StartValidation();
  void StartTest();

  /// Evaluates the predictions for a batch, given as its shards.
  absl::Status EvaluateBatch(absl::Span<const train::BatchView> shards);

  /// Closes the epoch with a checkpoint. The observer must get its report,
  /// last_epoch(), before the next epoch begins. `validation` is the report of
  /// the validation pass, if there was one.
  absl::Status EndEpoch(const strategy::PassReport& validation);

  /// Ends training early: writes a checkpoint to resume from, if one is
  /// possible at this batch.
  absl::Status Stop();

  /// Loads the best epoch's weights, if early stopping chose one.
  absl::Status KeepBest();

  /// Writes the model, unless it is only tested, and reports metrics, digest
  /// and peak memory. `test` is the report of the test pass.
  absl::StatusOr<TrainReport> Finish(const strategy::PassReport& test);

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
  bool OnlyTests() const { return job_.options.part == TrainPart::kTest; }
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
