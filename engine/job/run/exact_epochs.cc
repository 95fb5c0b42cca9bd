// Epochs without a history, or in shuffled order, step by step:
//   1. Read epochs.json in their folder; if it has all epochs, they are the
//      result.
//   2. Train as a job without a history would, with checkpoints in the folder.
//      At the end of each epoch its checkpoint is written, then its results are
//      added to the file; a resumed run repeats the results of the checkpoint's
//      last epoch (Observer::OnEpoch). So the file never lacks an epoch that a
//      checkpoint has trained; a file that does was damaged, and training
//      starts over.
//   3. With the last epoch in the file, remove the checkpoints.
#include "engine/job/run/exact_epochs.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/job/checkpoint/checkpoint.h"
#include "engine/job/checkpoint/report_json.h"
#include "engine/job/data/batch_source.h"
#include "engine/job/data/history.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/run/train_run.h"
#include "engine/store/dataset.h"
#include "engine/store/strict_json.h"
#include "engine/strategy/strategy.h"
#include "engine/train/metric.h"
#include "engine/train/model_options.h"
#include "nlohmann/json.hpp"

namespace hearth::job {
namespace {

// Version of epochs.json.
constexpr int kFormat = 1;
constexpr uint64_t kMaxFileBytes = 64 << 20;

// What is trained to compare with.
struct Comparison {
  // Options of the job that is trained.
  TrainJobOptions options;
  // Its batches, of which only the first epochs may be prepared.
  BatchOptions batches = {};
  // Number of epochs.
  int64_t epochs = 0;
  // Begins each line of the log.
  std::string prefix = {};
  // Error for datasets without validation nodes.
  std::string needs_validation = {};
};

// Results of finished epochs, and the file that keeps them.
class KeptEpochs {
 public:
  KeptEpochs(io::FileSystem& files, const std::string& folder,
             std::string fingerprint)
      : files_(files),
        path_(io::JoinPath(folder, "epochs.json")),
        fingerprint_(std::move(fingerprint)) {}

  const std::vector<ExactEpoch>& epochs() const { return epochs_; }

  // Reads the file; no epochs if there is no file, or it is of another dataset.
  // DATA_LOSS if it is damaged.
  absl::Status Read() {
    epochs_.clear();
    const absl::Status read = store::ReadSealedJson(
        files_, path_, kMaxFileBytes, kFormat, [&](const nlohmann::json& json) {
          if (json.at("fingerprint") != fingerprint_) return true;
          for (const nlohmann::json& epoch : json.at("epochs")) {
            epochs_.push_back(ExactEpochFromJson(epoch));
          }
          return true;
        });
    if (!read.ok()) epochs_.clear();
    return absl::IsNotFound(read) ? absl::OkStatus() : read;
  }

  // Sets epoch `number`, counted from 1, durably, and removes later epochs.
  // Does nothing if an earlier epoch is missing.
  absl::Status Set(uint32_t number, const ExactEpoch& epoch) {
    if (number > epochs_.size() + 1) return absl::OkStatus();
    epochs_.resize(number - 1);
    epochs_.push_back(epoch);
    nlohmann::json kept = nlohmann::json::array();
    for (const ExactEpoch& one : epochs_) kept.push_back(ToJson(one));
    return io::WriteFileAtomically(
        files_, path_,
        store::SealJson({{"format", kFormat},
                         {"fingerprint", fingerprint_},
                         {"epochs", kept}}));
  }

 private:
  io::FileSystem& files_;
  const std::string path_;
  const std::string fingerprint_;
  std::vector<ExactEpoch> epochs_;
};

// Reports the training to the job's observer as a comparison. Keeps the epochs'
// results here: they are not the job's own.
class ComparingObserver final : public Observer {
 public:
  ComparingObserver(Observer& job, const Comparison& comparison,
                    KeptEpochs& kept)
      : job_(job),
        epochs_(static_cast<uint32_t>(comparison.epochs)),
        prefix_(comparison.prefix),
        kept_(kept) {}

  void OnRunning() override { job_.OnRunning(); }

  absl::Status OnFirstEpochKey(int64_t key) override {
    return job_.OnFirstEpochKey(key);
  }

  void OnProgress(const Progress& progress) override {
    Progress comparing = progress;
    comparing.phase = progress.phase == "training"
                          ? "comparing"
                          : absl::StrCat("comparing: ", progress.phase);
    if (progress.epochs > 0) comparing.epochs = epochs_;
    job_.OnProgress(comparing);
  }

  absl::Status OnEpoch(const EpochReport& epoch) override {
    job_.OnLog(
        Severity::kInfo,
        absl::StrFormat("%sepoch %d: loss %.4f, validation %s %.4f", prefix_,
                        epoch.epoch, epoch.loss, train::Name(epoch.metric),
                        epoch.valid_metric.value_or(0)));
    return kept_.Set(epoch.epoch, {.loss = epoch.loss,
                                   .valid_metric = epoch.valid_metric,
                                   .seconds = epoch.training.seconds,
                                   .rows_needed = epoch.training.rows_needed});
  }

  void OnDurable() override { job_.OnDurable(); }

  void OnLog(Severity severity, const std::string& text) override {
    job_.OnLog(severity, absl::StrCat(prefix_, text));
  }

 private:
  Observer& job_;
  const uint32_t epochs_;
  const std::string prefix_;
  KeptEpochs& kept_;
};

// Adds to the job's series of batches and passes, but not of epochs. The series
// say that the job compares while this exists.
class ComparingMetrics final : public TrainMetrics {
 public:
  explicit ComparingMetrics(TrainMetrics& job) : job_(job) {
    job_.OnComparing(true);
  }
  ~ComparingMetrics() override { job_.OnComparing(false); }

  void OnBatch(double loss) override { job_.OnBatch(loss); }
  void OnEpoch(const EpochReport& /*epoch*/) override {}
  void OnPass(const strategy::PassReport& pass, bool new_pass) override {
    job_.OnPass(pass, new_pass);
  }
  void OnComparing(bool /*now*/) override {}

 private:
  TrainMetrics& job_;
};

// The job that `changed`, with a folder of its own in the job's, trains for
// `epochs` epochs.
Comparison ComparisonOf(TrainJobOptions changed, const std::string& folder,
                        int64_t epochs) {
  Comparison comparison = {.options = std::move(changed), .epochs = epochs};
  comparison.options.patience = 0;
  comparison.options.directory =
      io::JoinPath(comparison.options.directory, folder);
  comparison.batches = comparison.options.data;
  return comparison;
}

// Returns the dataset's fingerprint, after a check that the history's memory
// suffices: otherwise the comparison would be made for nothing.
absl::StatusOr<std::string> CheckedFingerprint(const ModelTrainer::Job& job) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(job.environment.files, job.options.data.dataset_path,
                           job.environment.verified));
  HEARTH_RETURN_IF_ERROR(
      CheckHistoryMemory(job.options.data, dataset->manifest(),
                         train::HiddenWidth(job.options.train.model)));
  return dataset->manifest().fingerprint;
}

// Trains the epochs that are not kept, as the job `exact`.
absl::Status Train(const ModelTrainer::Job& exact, const Comparison& comparison,
                   KeptEpochs& kept, std::stop_token stop,
                   ExactEpochs& result) {
  const double begin = exact.environment.clock.SteadySeconds();
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<BatchSource> source,
                          BatchSource::Open(exact.environment,
                                            {.data = comparison.batches,
                                             .pipeline = exact.options.pipeline,
                                             .folder = exact.options.directory,
                                             .job = &exact.options},
                                            exact.observer, stop));
  if (source->passes().num_valid() == 0) {
    return absl::InvalidArgumentError(comparison.needs_validation);
  }
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<ModelTrainer> trainer,
      ModelTrainer::Make(exact, source->dataset(), source->passes()));
  // The job may have been killed between an epoch's checkpoint and its results.
  if (const std::optional<EpochReport> report = trainer->TakeReport();
      report.has_value()) {
    HEARTH_RETURN_IF_ERROR(exact.observer.OnEpoch(*report));
  }
  if (static_cast<int64_t>(kept.epochs().size()) < trainer->epoch()) {
    exact.observer.OnLog(Severity::kWarning,
                         "the figures of some epochs are lost: training them "
                         "from the start");
    trainer.reset();
    HEARTH_RETURN_IF_ERROR(
        RemoveCheckpoints(exact.environment.files, exact.options.directory));
    HEARTH_ASSIGN_OR_RETURN(
        trainer,
        ModelTrainer::Make(exact, source->dataset(), source->passes()));
  }
  HEARTH_ASSIGN_OR_RETURN(const TrainReport report,
                          TrainAlone(exact.environment, *source,
                                     {.options = exact.options,
                                      .observer = exact.observer,
                                      .metrics = exact.metrics,
                                      .member = *trainer,
                                      .stop = stop,
                                      .begin_seconds = begin,
                                      .until_epoch = comparison.epochs}));
  result.trained = true;
  result.first_batch_seconds = report.first_batch_seconds;
  result.memory_bytes = std::max(source->memory().TotalBytes(),
                                 source->opening_memory().TotalBytes());
  result.partition = report.partition;
  return absl::OkStatus();
}

// Trains the epochs of `comparison` that were not trained before.
absl::StatusOr<ExactEpochs> Compare(const ModelTrainer::Job& job,
                                    const Comparison& comparison,
                                    std::string fingerprint,
                                    std::stop_token stop) {
  io::FileSystem& files = job.environment.files;
  const std::string& folder = comparison.options.directory;
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder));
  KeptEpochs kept(files, folder, std::move(fingerprint));
  if (const absl::Status status = kept.Read(); absl::IsDataLoss(status)) {
    job.observer.OnLog(Severity::kWarning, std::string(status.message()));
  } else {
    HEARTH_RETURN_IF_ERROR(status);
  }
  ExactEpochs result;
  if (static_cast<int64_t>(kept.epochs().size()) < comparison.epochs) {
    ComparingObserver observer(job.observer, comparison, kept);
    ComparingMetrics metrics(job.metrics);
    HEARTH_RETURN_IF_ERROR(Train({.environment = job.environment,
                                  .options = comparison.options,
                                  .observer = observer,
                                  .metrics = metrics,
                                  .memory = job.memory},
                                 comparison, kept, std::move(stop), result));
  }
  HEARTH_RETURN_IF_ERROR(RemoveCheckpoints(files, folder));
  result.epochs = kept.epochs();
  return result;
}

}  // namespace

void ExactEpochs::AddTo(TrainReport& report) const {
  report.memory_bound_bytes = std::max(report.memory_bound_bytes, memory_bytes);
  if (!trained) return;
  report.first_batch_seconds = first_batch_seconds;
  if (partition.has_value()) report.partition = partition;
}

absl::StatusOr<ExactEpochs> TrainExactEpochs(const ModelTrainer::Job& job,
                                             std::stop_token stop) {
  const std::optional<HistoryOptions>& history = job.options.data.history;
  if (!history.has_value() || history->compare_epochs == 0) {
    return ExactEpochs();
  }
  HEARTH_ASSIGN_OR_RETURN(std::string fingerprint, CheckedFingerprint(job));
  TrainJobOptions exact = job.options;
  exact.data.history.reset();
  Comparison comparison =
      ComparisonOf(std::move(exact), "exact", history->compare_epochs);
  comparison.prefix = "without a history: ";
  comparison.needs_validation =
      "history.compare_epochs: must be 0: the dataset has no validation nodes "
      "with labels, on which a history could be compared";
  return Compare(job, comparison, std::move(fingerprint), std::move(stop));
}

absl::StatusOr<ExactEpochs> TrainShuffledPilot(const ModelTrainer::Job& job,
                                               int64_t epochs,
                                               std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(job.environment.files, job.options.data.dataset_path,
                           job.environment.verified));
  TrainJobOptions shuffled = job.options;
  shuffled.data.locality_order = false;
  Comparison comparison = ComparisonOf(std::move(shuffled), "pilot", epochs);
  comparison.prefix = "in shuffled order: ";
  comparison.needs_validation =
      "order: must not be locality: the dataset has no validation nodes with "
      "labels, on which orders could be compared";
  // Keys of the epochs that are trained stay the same.
  BatchOptions& batches = comparison.batches;
  if (batches.refresh_epochs == 0) {
    batches.distinct_epochs = std::min(batches.NumEpochKeys(), epochs);
  }
  batches.epochs = epochs;
  return Compare(job, comparison, dataset->manifest().fingerprint,
                 std::move(stop));
}

}  // namespace hearth::job
