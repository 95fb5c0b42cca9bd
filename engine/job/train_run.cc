// A run, step by step:
//   1. take the strategy, prepare the member's epoch;
//   2. for each epoch: check that the dataset's files are unchanged, prepare
//      where new batches are due, run the training pass from the member's next
//      batch on, validate, close the epoch;
//   3. keep the best epoch's weights if early stopping chose one, test, write
//      the model, report.
// When a stop is requested, the pass ends with CANCELLED and the member writes
// a checkpoint.
#include "engine/job/train_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/history.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"
#include "engine/train/train_step.h"

namespace hearth::job {

using Shards = absl::Span<const train::BatchView>;

absl::StatusOr<TrainReport> TrainRun::Run() {
  HEARTH_RETURN_IF_ERROR(Start());
  absl::StatusOr<TrainReport> report = TrainAndTest();
  if (absl::IsCancelled(report.status())) {
    HEARTH_RETURN_IF_ERROR(parts_.member.Stop());
  }
  if (report.ok() || absl::IsCancelled(report.status())) {
    parts_.data.ReturnStrategy();
  }
  return report;
}

absl::Status TrainRun::RunFirst(int64_t epochs) {
  HEARTH_RETURN_IF_ERROR(Start());
  while (parts_.member.epoch() < epochs) {
    const absl::Status status = RunEpoch();
    if (absl::IsCancelled(status)) {
      HEARTH_RETURN_IF_ERROR(parts_.member.Stop());
    }
    HEARTH_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status TrainRun::Start() {
  HEARTH_RETURN_IF_ERROR(parts_.data.TakeStrategy(
      [this](const sample::BatchShape& shape) -> uint64_t {
        return parts_.member.ModelBytes(shape);
      }));
  // A job whose epochs are all trained is prepared for its test.
  HEARTH_RETURN_IF_ERROR(parts_.data.PrepareEpoch(
      std::min(parts_.member.epoch(), parts_.options.data.epochs - 1)));
  if (!parts_.is_running) parts_.observer.OnRunning();
  LogStart();
  return absl::OkStatus();
}

void TrainRun::LogStart() {
  const store::Manifest& manifest = parts_.data.dataset().manifest();
  parts_.observer.OnLog(
      Severity::kInfo,
      absl::StrFormat("dataset %s (%s), strategy %s: %d training nodes, %d "
                      "batches an epoch",
                      manifest.name, manifest.fingerprint,
                      strategy::Name(parts_.options.data.strategy),
                      parts_.data.passes().num_train(),
                      parts_.member.NumBatches()));
}

absl::StatusOr<TrainReport> TrainRun::TrainAndTest() {
  DataRun& data = parts_.data;
  Member& member = parts_.member;
  while (!member.Done()) {
    HEARTH_RETURN_IF_ERROR(RunEpoch());
  }
  HEARTH_RETURN_IF_ERROR(member.KeepBest());
  strategy::PassReport test;
  if (data.passes().num_test() > 0) {
    member.StartTest();
    HEARTH_RETURN_IF_ERROR(Evaluate(data.passes().Testing(), test));
  }
  HEARTH_ASSIGN_OR_RETURN(TrainReport report, member.Finish(test));
  report.memory = data.memory();
  report.first_batch_seconds = data.first_batch_seconds();
  report.warm_start = data.warm();
  report.verified_once = data.verified_once();
  report.preparations = data.preparations();
  report.partition = data.partition();
  report.history = data.history();
  report.exact = data.passes().Training(0).history == nullptr &&
                 strategy::DeliversInOrder(parts_.options.data.strategy);
  return report;
}

absl::Status TrainRun::RunEpoch() {
  DataRun& data = parts_.data;
  HEARTH_RETURN_IF_ERROR(data.dataset().CheckUnchanged());
  HEARTH_RETURN_IF_ERROR(data.PrepareEpoch(parts_.member.epoch()));
  HEARTH_RETURN_IF_ERROR(Train());
  // What has changed since may have been read.
  HEARTH_RETURN_IF_ERROR(data.dataset().CheckUnchanged());
  strategy::PassReport validation;
  if (data.passes().num_valid() > 0) {
    parts_.member.StartValidation();
    HEARTH_RETURN_IF_ERROR(Evaluate(data.passes().Validation(), validation));
  }
  data.LogAhead();
  return parts_.member.EndEpoch(validation);
}

// Trains the rest of the epoch.
absl::Status TrainRun::Train() {
  Member& member = parts_.member;
  if (member.next_batch() >= member.NumBatches()) return absl::OkStatus();
  strategy::Pass pass = parts_.data.passes().Training(member.epoch());
  pass.first_batch = member.next_batch();
  sample::HistoryPolicy history;
  if (pass.history != nullptr) {
    history = *pass.history;
    history.live = member.LiveHistories();
    pass.history = &history;
  }
  strategy::PassReport part;
  const absl::Status status = RunPass(
      pass,
      [&](Shards shards) -> absl::Status {
        HEARTH_RETURN_IF_ERROR(member.TrainBatch(shards));
        if (!member.CheckpointIsDue()) return absl::OkStatus();
        return member.WriteCheckpoint(parts_.data.PassSoFar());
      },
      part);
  member.EndTraining(part);
  return status;
}

absl::Status TrainRun::Evaluate(const strategy::Pass& pass,
                                strategy::PassReport& report) {
  return RunPass(
      pass,
      [this](Shards shards) { return parts_.member.EvaluateBatch(shards); },
      report);
}

// Runs a pass whose figures the job's series follow, batch by batch.
absl::Status TrainRun::RunPass(const strategy::Pass& pass,
                               const strategy::Strategy::Consumer& consumer,
                               strategy::PassReport& report) {
  bool is_first = true;
  const absl::Status status = parts_.data.RunPass(
      pass,
      [&](Shards shards) -> absl::Status {
        HEARTH_RETURN_IF_ERROR(consumer(shards));
        parts_.metrics.OnPass(report, std::exchange(is_first, false));
        return absl::OkStatus();
      },
      report);
  parts_.metrics.OnPass(report, is_first);
  return status;
}

}  // namespace hearth::job
