// Epochs without a history, step by step:
//   1. Read exact/epochs.json; if it has all epochs, they are the result.
//   2. Train as a job without a history would, with checkpoints in exact/. At
//      the end of each epoch its checkpoint is written, then its results are
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
constexpr char kWithout[] = "without a history: ";

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
    const absl::StatusOr<std::string> text =
        io::ReadWholeFile(files_, path_, kMaxFileBytes);
    if (absl::IsNotFound(text.status())) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(text.status());
    try {
      const absl::StatusOr<nlohmann::json> json = store::OpenSealedJson(*text);
      if (json.ok() && json->at("format") == kFormat) {
        if (json->at("fingerprint") != fingerprint_) return absl::OkStatus();
        for (const nlohmann::json& epoch : json->at("epochs")) {
          epochs_.push_back(ExactEpochFromJson(epoch));
        }
        return absl::OkStatus();
      }
    } catch (const nlohmann::json::exception&) {
      // Handled below.
    }
    epochs_.clear();
    return absl::DataLossError(absl::StrCat(path_, ": is damaged"));
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
  ComparingObserver(Observer& job, int64_t epochs, KeptEpochs& kept)
      : job_(job), epochs_(static_cast<uint32_t>(epochs)), kept_(kept) {}

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
        absl::StrFormat("%sepoch %d: loss %.4f, validation %s %.4f", kWithout,
                        epoch.epoch, epoch.loss, train::Name(epoch.metric),
                        epoch.valid_metric.value_or(0)));
    return kept_.Set(epoch.epoch, {.loss = epoch.loss,
                                   .valid_metric = epoch.valid_metric,
                                   .seconds = epoch.training.seconds,
                                   .rows_needed = epoch.training.rows_needed});
  }

  void OnDurable() override { job_.OnDurable(); }

  void OnLog(Severity severity, const std::string& text) override {
    job_.OnLog(severity, absl::StrCat(kWithout, text));
  }

 private:
  Observer& job_;
  const uint32_t epochs_;
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

// Options of the job without its history.
TrainJobOptions WithoutHistory(TrainJobOptions options) {
  options.data.history.reset();
  options.patience = 0;
  options.directory = io::JoinPath(options.directory, "exact");
  return options;
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

// Trains the epochs that are not kept. `exact.options` have no history.
absl::Status Train(const ModelTrainer::Job& exact, int64_t epochs,
                   KeptEpochs& kept, std::stop_token stop,
                   ExactEpochs& result) {
  const double begin = exact.environment.clock.SteadySeconds();
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<BatchSource> source,
                          BatchSource::Open(exact.environment,
                                            {.data = exact.options.data,
                                             .pipeline = exact.options.pipeline,
                                             .folder = exact.options.directory,
                                             .job = &exact.options},
                                            exact.observer, stop));
  if (source->passes().num_valid() == 0) {
    return absl::InvalidArgumentError(
        "history.compare_epochs: must be 0: the dataset has no validation "
        "nodes with labels, on which a history could be compared");
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
                                      .until_epoch = epochs}));
  result.trained = true;
  result.first_batch_seconds = report.first_batch_seconds;
  result.memory_bytes = std::max(source->memory().TotalBytes(),
                                 source->partitioning_memory().TotalBytes());
  result.partition = report.partition;
  return absl::OkStatus();
}

}  // namespace

void ExactEpochs::AddTo(TrainReport& report) const {
  report.memory_bound_bytes = std::max(report.memory_bound_bytes, memory_bytes);
  if (!trained) return;
  report.first_batch_seconds = first_batch_seconds;
  report.partition = partition;
}

absl::StatusOr<ExactEpochs> TrainExactEpochs(const ModelTrainer::Job& job,
                                             std::stop_token stop) {
  const std::optional<HistoryOptions>& history = job.options.data.history;
  if (!history.has_value() || history->compare_epochs == 0) {
    return ExactEpochs();
  }
  io::FileSystem& files = job.environment.files;
  const int64_t epochs = history->compare_epochs;
  const TrainJobOptions options = WithoutHistory(job.options);
  HEARTH_ASSIGN_OR_RETURN(std::string fingerprint, CheckedFingerprint(job));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(options.directory));
  KeptEpochs kept(files, options.directory, std::move(fingerprint));
  if (const absl::Status status = kept.Read(); absl::IsDataLoss(status)) {
    job.observer.OnLog(Severity::kWarning, std::string(status.message()));
  } else {
    HEARTH_RETURN_IF_ERROR(status);
  }
  ExactEpochs result;
  if (static_cast<int64_t>(kept.epochs().size()) < epochs) {
    ComparingObserver observer(job.observer, epochs, kept);
    ComparingMetrics metrics(job.metrics);
    HEARTH_RETURN_IF_ERROR(Train({.environment = job.environment,
                                  .options = options,
                                  .observer = observer,
                                  .metrics = metrics,
                                  .memory = job.memory},
                                 epochs, kept, std::move(stop), result));
  }
  HEARTH_RETURN_IF_ERROR(RemoveCheckpoints(files, options.directory));
  result.epochs = kept.epochs();
  return result;
}

}  // namespace hearth::job
