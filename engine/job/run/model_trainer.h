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

/// One model that is trained on the batches a BatchSource delivers: its steps,
/// what its checkpoints keep, its epochs' results and its report. It reads
/// nothing itself and does not know how batches come about, so several can be
/// fed by one data run, each at a batch of its own. An error of one of its
/// calls is its own; the data run and other trainers can go on. Single-owner:
/// belongs to the job's thread.
///
/// States, with the calls that lead from one to the next:
///   made --Begin--> between epochs
///   between epochs --TrainBatch...EndTraining--> trained
///   trained --[StartValidation, EvaluateBatch...]--EndEpoch--> between epochs
///   between epochs, Done() --KeepBest--[StartTest, EvaluateBatch...]--Finish
/// A trainer that was resumed may begin between two batches of an epoch, or
/// trained. One that is only tested (TrainPart::kTest) is Done() from the
/// beginning, and writes nothing.
class ModelTrainer {
 public:
  struct Job {
    const JobEnvironment& environment;
    const TrainJobOptions& options;
    Observer& observer;
    TrainMetrics& metrics;
    MemorySampler& memory;
    /// The first epochs without the history, to be reported beside those with
    /// it; outlives this.
    absl::Span<const ExactEpoch> exact = {};
  };

  /// A trainer with a model for `dataset`, which is not needed afterwards, at
  /// the place of the checkpoint in options.directory if there is one that is
  /// whole; the observer hears of those that are not. `passes` tell how many
  /// batches there are. It holds neither parameters nor embeddings before
  /// Begin, so that memory can be reserved for them. Errors as NewModel and
  /// FindCheckpoint; FAILED_PRECONDITION if it has patience, but no validation
  /// nodes, and if the model is only to be tested, and there is no checkpoint
  /// of the end of its training. All but `dataset` outlive this.
  static absl::StatusOr<std::unique_ptr<ModelTrainer>> Make(
      const Job& job, const store::Dataset& dataset,
      const PassSchedule& passes);
  ModelTrainer(const ModelTrainer&) = delete;
  ModelTrainer& operator=(const ModelTrainer&) = delete;

  /// Takes the memory that is reserved: makes room for the history, and the
  /// model as the checkpoint has it. To be called once, before what follows it
  /// in the list of states. `self_loops` of the dataset outlive this; null:
  /// no node has any, or the model does not ask. Errors as ReadTensors,
  /// TrainStep::Load and train::HistoryCache::Load.
  absl::Status Begin(const store::SelfLoops* self_loops);

  /// Memory that the model takes for batches of `shape`
  /// (TrainStep::MemoryBytes), the scores that its metric ranks, and the self
  /// loops that it asks for.
  uint64_t ModelBytes(const sample::BatchShape& shape) const {
    return step_->MemoryBytes(shape) + metric_.ranking_bytes + self_loop_bytes_;
  }
  /// The part of it that stays between two batches (TrainStep::KeptBytes).
  uint64_t KeptBytes() const {
    return step_->KeptBytes() + metric_.ranking_bytes + self_loop_bytes_;
  }
  /// Bytes of the model's parameters (TrainStep::ParameterBytes).
  uint64_t ParameterBytes() const { return step_->ParameterBytes(); }
  /// Reserves the memory of the GPU that trains it, if one does, for batches of
  /// `shape`, for as long as the trainer lives. Errors as
  /// MemoryLedger::Reserve.
  absl::Status ReserveGpu(const sample::BatchShape& shape);
  /// The reservation of ReserveGpu; empty without a GPU.
  const strategy::MemoryEstimate& gpu_memory() const {
    return gpu_memory_.estimate();
  }

  /// The epoch it is in, from 0, and the batch of it to be trained next.
  int64_t epoch() const { return state_.epoch; }
  int64_t next_batch() const {
    return state_.next_batch + static_cast<int64_t>(pending_.size());
  }
  /// Training batches of an epoch.
  int64_t NumBatches() const { return num_batches_; }
  /// Whether nothing was trained before: no checkpoint was found, whole or
  /// damaged, and no batch has come.
  bool is_new() const {
    return !found_checkpoint_ && state_.epoch == 0 && state_.next_batch == 0;
  }
  /// The report of the last epoch, for the observer. A trainer that was resumed
  /// has it, too: the job may have been killed between the epoch's checkpoint
  /// and its report. Absent before the first one.
  const std::optional<EpochReport>& last_epoch() const {
    return state_.last_epoch;
  }
  /// Whether no epoch is left: all are trained, or patience is at its end.
  bool Done() const;

  /// The embeddings of earlier batches of the epoch that the next batch may
  /// use; none without a history.
  std::vector<sample::LiveHistory> LiveHistories() const;

  /// Trains on the next batch, given as its shards. ABORTED if the loss of it,
  /// or of one of the last few before it (TrainStep::MostPending), is not a
  /// finite number.
  absl::Status TrainBatch(absl::Span<const train::BatchView> shards);

  /// Whether options.checkpoint_every wants a checkpoint after this batch.
  bool CheckpointIsDue() const;

  /// Writes a checkpoint between two batches. `pass` is what the pass that
  /// trains this epoch has cost so far.
  absl::Status WriteCheckpoint(const strategy::PassReport& pass);

  /// The epoch's training pass, or the part of it that was run, is over.
  void EndTraining(const strategy::PassReport& pass);

  /// The batches to come are those of validation, or of the test.
  void StartValidation();
  void StartTest();

  /// Judges the predictions for a batch, given as its shards.
  absl::Status EvaluateBatch(absl::Span<const train::BatchView> shards);

  /// Closes the epoch with a checkpoint; its report is last_epoch(), which the
  /// observer must get before the next epoch begins. `validation` is what the
  /// validation pass cost, where there was one.
  absl::Status EndEpoch(const strategy::PassReport& validation);

  /// Training stops before its end: writes a checkpoint to go on from, where
  /// one is possible here.
  absl::Status Stop();

  /// Goes back to the best epoch's weights, if early stopping chose one.
  absl::Status KeepBest();

  /// Writes the model, unless it is only tested, and reports all that the
  /// trainer knows: metrics, digest and the peak of memory. `test` is what the
  /// test pass cost.
  absl::StatusOr<TrainReport> Finish(const strategy::PassReport& test);

 private:
  // How predictions are judged.
  struct EvaluatedMetric {
    train::Metric metric = train::Metric::kAccuracy;
    // Scores of a node that the metric ranks.
    int64_t ranked_columns = 0;
    uint64_t ranking_bytes = 0;
  };

  // Predictions being judged.
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
  // Warns if the batches so far were trained with another arithmetic.
  void NoteArithmetic();
  bool OnlyTests() const { return job_.options.part == TrainPart::kTest; }
  std::vector<train::BatchView> WithSelfLoops(
      absl::Span<const train::BatchView> shards) const;
  absl::Status AddHistories(std::vector<train::BatchView>& shards);
  void KeepHistories(absl::Span<const train::BatchView> shards);
  // Takes the results of steps that have begun, until `most` are left.
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
  // Steps that have begun, after those that state_ counts.
  std::deque<train::AwaitResult> pending_;
  // Outlives the step, which holds the memory.
  MemoryLedger::Reservation gpu_memory_;
  const std::unique_ptr<train::TrainStep> step_;
  // Whether there are checkpoints, whole or damaged, and whether Begin goes on
  // from one.
  bool found_checkpoint_ = false;
  bool goes_on_ = false;
  // All that must survive a kill.
  Checkpoint state_;
  std::optional<Evaluation> evaluation_;
  // The phases of which the log says that their metric is not defined.
  std::set<std::string> undefined_;
  // Null without a history, and before Begin.
  std::unique_ptr<train::HistoryCache> histories_;
  int64_t staleness_ = 0;
  // Null where there are none.
  const store::SelfLoops* self_loops_ = nullptr;
  uint64_t self_loop_bytes_ = 0;
  // The memory of train::LayerRows.
  struct TopRows {
    std::vector<float> pulled;
    std::vector<float> pushed;
    std::vector<float> pulled_gradients;
    std::vector<float> pushed_gradients;
  };
  // By shard of a batch.
  std::vector<TopRows> top_rows_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUN_MODEL_TRAINER_H_
