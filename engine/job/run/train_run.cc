#include "engine/job/run/train_run.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/history.h"
#include "engine/store/graph.h"
#include "engine/store/manifest.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

// A run, step by step:
//   1. the first riders come on board; take the strategy, prepare their epoch;
//   2. between two epochs: riders come on board, those that were asked to stop
//      leave, those whose epochs are done are tested, if they are to be, and
//      leave;
//   3. an epoch: check that the dataset's files are unchanged, prepare where
//      new batches are due, run the training pass from the first batch that a
//      rider needs, validate, close the epoch, report it for all riders at
//      once;
//   4. when no rider is left and none is to come, the run is over.
// In a pass each batch goes to the riders whose next one it is; the next batch
// comes when all of them are done.

namespace hearth::job {

namespace {

using Shards = absl::Span<const train::BatchView>;

// The epoch in which a rider is, by its batches.
int64_t EpochOf(const Rider& rider) {
  return rider.options.data.EpochOfBatches(rider.member.epoch());
}

bool IsDone(const Rider& rider) {
  return rider.member.Done() || (rider.until_epoch.has_value() &&
                                 rider.member.epoch() >= *rider.until_epoch);
}

// Whether they all train on the GPU that keeps rows.
bool TrainWhereRowsAre(const std::vector<Rider*>& riders) {
  return std::all_of(riders.begin(), riders.end(), [](const Rider* rider) {
    return rider->options.train.gpu == strategy::kRowsOnGpu.gpu;
  });
}

// Seconds of a pass if nobody trains on its batches: its slowest stage.
double SecondsOfData(const strategy::PassReport& pass) {
  double seconds = 0;
  for (const pipeline::StageStats& stage : pass.stages) {
    seconds =
        std::max(seconds, stage.busy_seconds / std::max(1, stage.threads));
  }
  return seconds;
}

}  // namespace

int64_t FirstAfterLongestGap(const std::set<int64_t>& epochs,
                             int64_t num_epochs) {
  int64_t best = *epochs.begin();
  int64_t longest = best + num_epochs - *epochs.rbegin();
  for (auto it = epochs.begin(); std::next(it) != epochs.end(); ++it) {
    const int64_t gap = *std::next(it) - *it;
    if (gap > longest) {
      longest = gap;
      best = *std::next(it);
    }
  }
  return best;
}

absl::Status TrainRun::Run() {
  const absl::Status status = RunAll();
  if (absl::IsCancelled(status)) {
    ForAll(riders_, [](Rider& rider) { return rider.member.Stop(); });
  }
  while (!riders_.empty()) Leave(*riders_.back(), status);
  return status;
}

absl::Status TrainRun::RunAll() {
  while (true) {
    HEARTH_RETURN_IF_ERROR(EndEpochs());
    Riders more = parts_.host.Board(PickEpoch());
    if (riders_.empty() && more.empty()) return absl::OkStatus();
    if (!started_) {
      const absl::Status status = Start(more);
      if (!status.ok()) {
        for (Rider* rider : more) Leave(*rider, status);
        return status;
      }
      if (!started_) continue;
    }
    HEARTH_RETURN_IF_ERROR(Welcome(more));
    const std::optional<int64_t> epoch = PickEpoch();
    // One that comes from a checkpoint may have to end an epoch first.
    const bool all_train = std::none_of(
        in_epoch_.begin(), in_epoch_.end(), [](const Rider* rider) {
          return rider->owes_report || IsDone(*rider);
        });
    if (epoch.has_value() && all_train) {
      HEARTH_RETURN_IF_ERROR(RunEpoch(*epoch));
    }
  }
}

// The strategy and its memory are those that the first rider needs; others add
// their models to it. A rider whose model can never fit leaves, and the next
// one is the first.
absl::Status TrainRun::Start(Riders& riders) {
  while (!riders.empty()) {
    const absl::Status status = StartWith(*riders.front());
    started_ = status.ok();
    const bool never_fits = absl::IsResourceExhausted(status) &&
                            WaitCauseOf(status) == WaitCause::kNone &&
                            !parts_.data.has_memory();
    if (!never_fits) return status;
    Leave(*riders.front(), status);
    riders.erase(riders.begin());
  }
  return absl::OkStatus();
}

absl::Status TrainRun::StartWith(Rider& first) {
  HEARTH_RETURN_IF_ERROR(parts_.data.TakeStrategy(
      {.bytes = [&](const sample::BatchShape& shape) -> uint64_t {
         return first.member.ModelBytes(shape);
       },
       .parameter_bytes = first.member.ParameterBytes(),
       .kept_bytes = first.member.KeptBytes()}));
  const DataOptions& data = first.options.data;
  // A job whose epochs are all trained is prepared for its test.
  return parts_.data.PrepareEpoch(
      data.EpochOfBatches(std::min(first.member.epoch(), data.epochs - 1)));
}

absl::Status TrainRun::Welcome(const Riders& riders) {
  const sample::BatchShape shape = parts_.data.largest_batch();
  Riders welcome;
  for (Rider* rider : riders) {
    absl::Status status = rider->member.ReserveGpu(shape);
    if (status.ok()) {
      status = models_.Add(rider,
                           {.bytes = rider->member.ModelBytes(shape),
                            .kept_bytes = rider->member.KeptBytes(),
                            .parameter_bytes = rider->member.ParameterBytes()});
    }
    if (status.ok()) {
      welcome.push_back(rider);
    } else {
      Leave(*rider, status);
    }
  }
  riders_.insert(riders_.end(), welcome.begin(), welcome.end());
  const store::SelfLoops* self_loops = nullptr;
  if (std::any_of(welcome.begin(), welcome.end(), [](const Rider* rider) {
        return train::CountsSelfLoops(rider->options.train.model);
      })) {
    HEARTH_ASSIGN_OR_RETURN(self_loops, parts_.data.CountSelfLoops());
  }
  const store::Manifest& manifest = parts_.data.dataset().manifest();
  const JobPasses& passes = parts_.data.passes();
  ForAll(welcome, [&](Rider& rider) -> absl::Status {
    HEARTH_RETURN_IF_ERROR(rider.member.Begin(self_loops));
    if (rider.options.part == TrainPart::kTest) rider.owes_report = false;
    if (!rider.is_running) rider.observer.OnRunning();
    rider.is_running = true;
    rider.observer.OnLog(
        Severity::kInfo,
        absl::StrFormat("dataset %s (%s), strategy %s: %d training nodes, %d "
                        "batches an epoch",
                        manifest.name, manifest.fingerprint,
                        strategy::Name(rider.options.data.strategy),
                        passes.num_train(), rider.member.NumBatches()));
    if (!rider.options.HasModel()) return absl::OkStatus();
    if (passes.num_valid() == 0 && rider.options.part != TrainPart::kTest) {
      rider.observer.OnLog(Severity::kWarning,
                           "no validation: the dataset has no validation nodes "
                           "with labels");
    }
    if (passes.num_test() == 0 && rider.options.part != TrainPart::kTraining) {
      rider.observer.OnLog(
          Severity::kWarning,
          "no test: the dataset has no test nodes with labels");
    }
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

// The epoch that is next, whose riders are `in_epoch_` then; none without
// riders.
std::optional<int64_t> TrainRun::PickEpoch() {
  in_epoch_.clear();
  if (riders_.empty()) return std::nullopt;
  std::set<int64_t> epochs;
  for (const Rider* rider : riders_) epochs.insert(EpochOf(*rider));
  const int64_t next = FirstAfterLongestGap(
      epochs, riders_.front()->options.data.NumEpochKeys());
  for (Rider* rider : riders_) {
    if (EpochOf(*rider) == next) in_epoch_.push_back(rider);
  }
  return next;
}

// Does the work between the epochs of the riders that have ended the same one.
absl::Status TrainRun::EndEpochs() {
  PickEpoch();
  Report();
  HEARTH_RETURN_IF_ERROR(DropStopped());
  HEARTH_RETURN_IF_ERROR(EndRiders());
  LeaveBehind();
  return absl::OkStatus();
}

// Its checkpoint is that of the epoch's end.
void TrainRun::LeaveBehind() {
  const std::optional<double> seconds = std::exchange(pass_seconds_, {});
  if (!seconds.has_value()) return;
  if (Rider* laggard = parts_.host.PickLaggard(*seconds)) {
    Leave(*laggard, absl::CancelledError("goes on by itself"));
  }
}

void TrainRun::Report() {
  std::vector<EndedEpoch> ended;
  for (Rider* rider : in_epoch_) {
    if (!std::exchange(rider->owes_report, false)) continue;
    const std::optional<EpochReport>& report = rider->member.last_epoch();
    if (report.has_value()) ended.push_back({*rider, *report});
  }
  if (ended.empty()) return;
  parts_.host.Report(absl::MakeSpan(ended));
  for (EndedEpoch& epoch : ended) {
    if (!epoch.status.ok()) Leave(epoch.rider, epoch.status);
  }
}

// Tests and lets go those that have trained all their epochs, and reported
// them.
absl::Status TrainRun::EndRiders() {
  Riders done;
  for (Rider* rider : Riders(riders_)) {
    if (!IsDone(*rider) || rider->owes_report) continue;
    if (rider->until_epoch.has_value()) {
      Leave(*rider, Complete(*rider, {}));
    } else {
      done.push_back(rider);
    }
  }
  if (done.empty()) return absl::OkStatus();
  in_epoch_ = std::move(done);
  ForAll(in_epoch_, [](Rider& rider) { return rider.member.KeepBest(); });
  strategy::PassReport test;
  // Those without a test do not wait for that of others.
  for (Rider* rider : Riders(in_epoch_)) {
    if (rider->options.part == TrainPart::kTraining) Finish(*rider, test);
  }
  if (in_epoch_.empty()) return absl::OkStatus();
  if (parts_.data.passes().num_test() > 0) {
    ForAll(in_epoch_, [](Rider& rider) {
      rider.member.StartTest();
      return absl::OkStatus();
    });
    HEARTH_RETURN_IF_ERROR(Evaluate(parts_.data.passes().Testing(), test));
  }
  for (Rider* rider : Riders(in_epoch_)) Finish(*rider, test);
  return absl::OkStatus();
}

void TrainRun::Finish(Rider& rider, const strategy::PassReport& test) {
  std::optional<TrainReport> report;
  ForAll({&rider}, [&](Rider& one) -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(report, one.member.Finish(test));
    return absl::OkStatus();
  });
  // With an error it has left.
  if (report.has_value()) Leave(rider, Complete(rider, *std::move(report)));
}

// Adds to a report what the run knows.
TrainReport TrainRun::Complete(const Rider& rider, TrainReport report) const {
  const DataRun& data = parts_.data;
  report.memory = data.memory();
  report.cuts = data.cuts();
  report.memory_limit_bytes = parts_.memory.most_bytes();
  for (const strategy::MemoryShare& share : rider.member.gpu_memory().shares) {
    report.memory.shares.push_back(share);
  }
  if (const uint64_t bytes = models_.peak_bytes(); bytes > 0) {
    report.memory.Add("other models", bytes);
  }
  // The larger of the bounds of this run and of what came before it.
  report.memory_bound_bytes = std::max(report.memory.TotalBytes(),
                                       data.partitioning_memory().TotalBytes());
  report.first_batch_seconds = rider.first_batch_seconds;
  report.warm_start = data.warm();
  report.verified_once = data.verified_once();
  report.preparations = data.preparations();
  report.partition = data.partition();
  report.history = data.history();
  report.exact = data.passes().Training(0).history == nullptr &&
                 strategy::DeliversInOrder(rider.options.data.strategy);
  report.company = rider.company;
  return report;
}

absl::Status TrainRun::RunEpoch(int64_t epoch) {
  DataRun& data = parts_.data;
  HEARTH_RETURN_IF_ERROR(data.dataset().CheckUnchanged());
  HEARTH_RETURN_IF_ERROR(data.PrepareEpoch(epoch));
  HEARTH_RETURN_IF_ERROR(Train(epoch));
  // Changes since then may have been read.
  HEARTH_RETURN_IF_ERROR(data.dataset().CheckUnchanged());
  strategy::PassReport validation;
  if (data.passes().num_valid() > 0 && !in_epoch_.empty()) {
    ForAll(in_epoch_, [](Rider& rider) {
      rider.member.StartValidation();
      return absl::OkStatus();
    });
    HEARTH_RETURN_IF_ERROR(Evaluate(data.passes().Validation(), validation));
  }
  data.LogAhead();
  ForAll(in_epoch_, [&](Rider& rider) {
    rider.owes_report = true;
    return rider.member.EndEpoch(validation);
  });
  return absl::OkStatus();
}

// Trains the rest of the epoch, from the first batch that a rider needs.
absl::Status TrainRun::Train(int64_t epoch) {
  Riders training;
  for (Rider* rider : in_epoch_) {
    const Member& member = rider->member;
    if (member.next_batch() < member.NumBatches()) training.push_back(rider);
  }
  if (training.empty()) return absl::OkStatus();
  strategy::Pass pass = parts_.data.passes().Training(epoch);
  pass.first_batch = (*std::min_element(training.begin(), training.end(),
                                        [](const Rider* a, const Rider* b) {
                                          return a->member.next_batch() <
                                                 b->member.next_batch();
                                        }))
                         ->member.next_batch();
  sample::HistoryPolicy history;
  if (pass.history != nullptr) {
    history = *pass.history;
    history.live = training.front()->member.LiveHistories();
    pass.history = &history;
  }
  int64_t batch = pass.first_batch;
  strategy::PassReport part;
  is_training_ = true;
  const absl::Status status = RunPass(
      pass, std::move(training),
      [&](Shards shards) {
        Riders takers;
        for (Rider* rider : in_pass_) {
          if (rider->member.next_batch() == batch) takers.push_back(rider);
        }
        ++batch;
        ForAll(takers, [&](Rider& rider) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(rider.member.TrainBatch(shards));
          if (!rider.member.CheckpointIsDue()) return absl::OkStatus();
          return rider.member.WriteCheckpoint(parts_.data.PassSoFar());
        });
      },
      part);
  is_training_ = false;
  pass_seconds_ = SecondsOfData(part);
  ForAll(in_pass_, [&](Rider& rider) {
    rider.member.EndTraining(part);
    return absl::OkStatus();
  });
  in_pass_.clear();
  return status;
}

absl::Status TrainRun::Evaluate(const strategy::Pass& pass,
                                strategy::PassReport& report) {
  const absl::Status status = RunPass(
      pass, in_epoch_,
      [&](Shards shards) {
        ForAll(in_pass_, [&](Rider& rider) {
          return rider.member.EvaluateBatch(shards);
        });
      },
      report);
  in_pass_.clear();
  return status;
}

// Runs a pass for `riders`, who are `in_pass_` until they leave, also after the
// end of it. OK, too, if it ended early because none of them was left.
absl::Status TrainRun::RunPass(const strategy::Pass& pass, Riders riders,
                               absl::FunctionRef<void(Shards)> deliver,
                               strategy::PassReport& report) {
  strategy::Pass shared = pass;
  shared.rows_on_gpu = TrainWhereRowsAre(riders);
  in_pass_ = std::move(riders);
  bool is_first = true;
  const auto count = [&] {
    for (const Rider* rider : in_pass_) rider->metrics.OnPass(report, is_first);
    is_first = false;
  };
  absl::Status status = parts_.data.RunPass(
      shared,
      [&](Shards shards) -> absl::Status {
        HEARTH_RETURN_IF_ERROR(DropStopped());
        const double now = parts_.clock.SteadySeconds();
        for (Rider* rider : in_pass_) {
          if (rider->first_batch_seconds.has_value()) continue;
          rider->first_batch_seconds = now - rider->begin_seconds;
        }
        deliver(shards);
        count();
        if (in_pass_.empty()) return absl::CancelledError("nobody is left");
        return absl::OkStatus();
      },
      report);
  count();
  if (in_pass_.empty() && absl::IsCancelled(status)) status = absl::OkStatus();
  const auto riders_left = static_cast<int64_t>(in_pass_.size());
  const int64_t bytes = report.bytes_read.value_or(0);
  for (Rider* rider : in_pass_) {
    rider->company.bytes_alone += bytes;
    rider->company.bytes_charged += bytes / riders_left;
    for (const Rider* other : in_pass_) {
      if (other != rider) rider->company.jobs.insert(other->options.name);
    }
  }
  if (riders_left > 1) parts_.host.OnShared(bytes * (riders_left - 1));
  return status;
}

// Lets those go that were asked to stop; CANCELLED if that is all of them, who
// then stay on board.
absl::Status TrainRun::DropStopped() {
  Riders stopped;
  for (Rider* rider : riders_) {
    if (rider->stop.stop_requested()) stopped.push_back(rider);
  }
  if (stopped.empty()) return absl::OkStatus();
  if (stopped.size() == riders_.size()) return absl::CancelledError("stopped");
  const Riders training = is_training_ ? in_pass_ : Riders();
  ForAll(stopped, [&](Rider& rider) {
    if (std::count(training.begin(), training.end(), &rider) > 0) {
      rider.member.EndTraining(parts_.data.PassSoFar());
    }
    HEARTH_RETURN_IF_ERROR(rider.member.Stop());
    return absl::CancelledError("stopped");
  });
  return absl::OkStatus();
}

// A rider whose call fails leaves with the error.
void TrainRun::ForAll(const Riders& riders,
                      absl::FunctionRef<absl::Status(Rider&)> call) {
  if (riders.empty()) return;
  const Riders called = riders;
  const std::vector<absl::Status> results = parts_.host.ForAll(called, call);
  for (size_t i = 0; i < called.size(); ++i) {
    if (!results[i].ok()) Leave(*called[i], results[i]);
  }
}

void TrainRun::Leave(Rider& rider, absl::StatusOr<TrainReport> result) {
  std::erase(riders_, &rider);
  std::erase(in_epoch_, &rider);
  std::erase(in_pass_, &rider);
  models_.Remove(&rider);
  parts_.host.Leave(rider, std::move(result));
}

namespace {

// Brings the one rider on board.
class OneRider final : public RunHost {
 public:
  explicit OneRider(Rider& rider) : rider_(rider) {}

  std::vector<Rider*> Board(std::optional<int64_t> /*next_epoch*/) override {
    if (std::exchange(has_boarded_, true)) return {};
    return {&rider_};
  }

  std::vector<absl::Status> ForAll(
      absl::Span<Rider* const> riders,
      absl::FunctionRef<absl::Status(Rider&)> call) override {
    std::vector<absl::Status> results;
    for (Rider* rider : riders) results.push_back(call(*rider));
    return results;
  }

  int max_steps() const override { return 1; }

  void Report(absl::Span<EndedEpoch> epochs) override {
    for (EndedEpoch& epoch : epochs) {
      epoch.status = epoch.rider.observer.OnEpoch(epoch.report);
    }
  }

  Rider* PickLaggard(double /*pass_seconds*/) override { return nullptr; }

  void OnShared(int64_t /*bytes*/) override {}

  void Leave(Rider& /*rider*/, absl::StatusOr<TrainReport> result) override {
    result_ = std::move(result);
  }

  absl::StatusOr<TrainReport> result() && { return std::move(result_); }

 private:
  Rider& rider_;
  bool has_boarded_ = false;
  absl::StatusOr<TrainReport> result_ = absl::InternalError("still on board");
};

}  // namespace

absl::StatusOr<TrainReport> TrainAlone(const JobEnvironment& environment,
                                       DataRun& data, Rider rider) {
  OneRider host(rider);
  const absl::Status status = TrainRun({.data = data,
                                        .memory = environment.memory,
                                        .clock = environment.clock,
                                        .host = host})
                                  .Run();
  absl::StatusOr<TrainReport> result = std::move(host).result();
  // An error of the data is the rider's result, too.
  if (result.ok()) HEARTH_RETURN_IF_ERROR(status);
  return result;
}

}  // namespace hearth::job
