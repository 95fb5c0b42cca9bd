// A train job, step by step:
//   1. open the data (DataRun), make the model and go on from the checkpoint if
//      there is one (Member), take the strategy, prepare the epoch;
//   2. for each epoch: check that the dataset's files are unchanged, prepare
//      where new batches are due, run the training pass from the member's next
//      batch on, validate, close the epoch;
//   3. keep the best epoch's weights if early stopping chose one, test, write
//      the model, report.
// When a stop is requested, the pass ends with CANCELLED and the member writes
// a checkpoint. The strategy is left to other jobs after success and after a
// stop; after any other error its state is unknown and it goes.
//
// One data run feeds one member. What each needs of the other goes through
// here: passes and their figures one way, the member's position the other.
#include "engine/job/train_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/job/data_run.h"
#include "engine/job/member.h"
#include "engine/job/memory_sampler.h"
#include "engine/sample/history.h"
#include "engine/strategy/kinds.h"
#include "engine/train/train_step.h"

namespace hearth::job {
namespace {

using Shards = absl::Span<const train::BatchView>;

class TrainRun {
 public:
  TrainRun(const TrainJobOptions& options, Observer& observer,
           TrainMetrics& metrics, DataRun& data, Member& member)
      : options_(options),
        observer_(observer),
        metrics_(metrics),
        data_(data),
        member_(member) {}

  absl::StatusOr<TrainReport> Run() {
    HEARTH_RETURN_IF_ERROR(
        data_.TakeStrategy([this](const sample::BatchShape& shape) -> uint64_t {
          return member_.ModelBytes(shape);
        }));
    // A job whose epochs are all trained is prepared for its test.
    HEARTH_RETURN_IF_ERROR(data_.PrepareEpoch(
        std::min(member_.epoch(), options_.data.epochs - 1)));
    observer_.OnRunning();
    LogStart();
    absl::StatusOr<TrainReport> report = TrainAndTest();
    if (absl::IsCancelled(report.status())) {
      HEARTH_RETURN_IF_ERROR(member_.Stop());
    }
    if (report.ok() || absl::IsCancelled(report.status())) {
      data_.ReturnStrategy();
    }
    return report;
  }

 private:
  void LogStart() {
    const store::Manifest& manifest = data_.dataset().manifest();
    observer_.OnLog(
        Severity::kInfo,
        absl::StrFormat("dataset %s (%s), strategy %s: %d training nodes, %d "
                        "batches an epoch",
                        manifest.name, manifest.fingerprint,
                        strategy::Name(options_.data.strategy),
                        data_.passes().num_train(), member_.NumBatches()));
  }

  absl::StatusOr<TrainReport> TrainAndTest() {
    while (!member_.Done()) {
      HEARTH_RETURN_IF_ERROR(RunEpoch());
    }
    HEARTH_RETURN_IF_ERROR(member_.KeepBest());
    strategy::PassReport test;
    if (data_.passes().num_test() > 0) {
      member_.StartTest();
      HEARTH_RETURN_IF_ERROR(Evaluate(data_.passes().Testing(), test));
    }
    HEARTH_ASSIGN_OR_RETURN(TrainReport report, member_.Finish(test));
    report.memory = data_.memory();
    report.first_batch_seconds = data_.first_batch_seconds();
    report.warm_start = data_.warm();
    report.verified_once = data_.verified_once();
    report.preparations = data_.preparations();
    report.partition = data_.partition();
    report.history = data_.history();
    report.exact = data_.passes().Training(0).history == nullptr &&
                   strategy::DeliversInOrder(options_.data.strategy);
    return report;
  }

  absl::Status RunEpoch() {
    HEARTH_RETURN_IF_ERROR(data_.dataset().CheckUnchanged());
    HEARTH_RETURN_IF_ERROR(data_.PrepareEpoch(member_.epoch()));
    HEARTH_RETURN_IF_ERROR(Train());
    // What has changed since may have been read.
    HEARTH_RETURN_IF_ERROR(data_.dataset().CheckUnchanged());
    strategy::PassReport validation;
    if (data_.passes().num_valid() > 0) {
      member_.StartValidation();
      HEARTH_RETURN_IF_ERROR(Evaluate(data_.passes().Validation(), validation));
    }
    data_.LogAhead();
    return member_.EndEpoch(validation);
  }

  // Trains the rest of the epoch.
  absl::Status Train() {
    if (member_.next_batch() >= member_.NumBatches()) return absl::OkStatus();
    strategy::Pass pass = data_.passes().Training(member_.epoch());
    pass.first_batch = member_.next_batch();
    sample::HistoryPolicy history;
    if (pass.history != nullptr) {
      history = *pass.history;
      history.live = member_.LiveHistories();
      pass.history = &history;
    }
    strategy::PassReport part;
    const absl::Status status = RunPass(
        pass,
        [this](Shards shards) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(member_.TrainBatch(shards));
          if (!member_.CheckpointIsDue()) return absl::OkStatus();
          return member_.WriteCheckpoint(data_.PassSoFar());
        },
        part);
    member_.EndTraining(part);
    return status;
  }

  absl::Status Evaluate(const strategy::Pass& pass,
                        strategy::PassReport& report) {
    return RunPass(
        pass, [this](Shards shards) { return member_.EvaluateBatch(shards); },
        report);
  }

  // Runs a pass whose figures the job's series follow, batch by batch.
  absl::Status RunPass(const strategy::Pass& pass,
                       const strategy::Strategy::Consumer& consumer,
                       strategy::PassReport& report) {
    bool is_first = true;
    const absl::Status status = data_.RunPass(
        pass,
        [&](Shards shards) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(consumer(shards));
          metrics_.OnPass(report, std::exchange(is_first, false));
          return absl::OkStatus();
        },
        report);
    metrics_.OnPass(report, is_first);
    return status;
  }

  const TrainJobOptions& options_;
  Observer& observer_;
  TrainMetrics& metrics_;
  DataRun& data_;
  Member& member_;
};

}  // namespace

absl::StatusOr<TrainReport> RunTrainJob(const JobEnvironment& environment,
                                        const TrainJobOptions& options,
                                        Observer& observer,
                                        TrainMetrics& metrics,
                                        std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  const std::unique_ptr<MemorySampler> memory = NewMemorySampler();
  const uint64_t base_memory_bytes = memory->PeakBytes();
  HEARTH_RETURN_IF_ERROR(environment.files.CreateDirectory(options.directory));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<DataRun> data,
      DataRun::Open(environment,
                    {.data = options.data,
                     .pipeline = options.pipeline,
                     .training_only = !options.HasModel(),
                     .embedding_width = train::HiddenWidth(options.train.model),
                     .folder = options.directory},
                    observer, std::move(stop)));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<Member> member,
                          Member::Make({.environment = environment,
                                        .options = options,
                                        .observer = observer,
                                        .metrics = metrics,
                                        .memory = *memory},
                                       data->dataset(), data->passes()));
  HEARTH_ASSIGN_OR_RETURN(
      TrainReport report,
      TrainRun(options, observer, metrics, *data, *member).Run());
  report.memory_bound_bytes =
      base_memory_bytes + std::max(report.memory.TotalBytes(),
                                   data->partitioning_memory().TotalBytes());
  return report;
}

}  // namespace hearth::job
