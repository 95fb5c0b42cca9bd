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
//   1. Attach the first jobs; take the strategy and prepare their epoch.
//   2. Between two epochs: attach new jobs, detach jobs that were asked to
//   stop,
//      test jobs that have trained all their epochs (unless their options leave
//      the test out) and detach them.
//   3. An epoch: check that the dataset's files are unchanged, prepare where
//      new batches are due, run the training pass from the first batch that a
//      job needs, validate, close the epoch, report it for all jobs at once.
//   4. When no job is left and none is to come, the run is over.
// In a pass each batch goes to the jobs whose next batch it is; the next batch
// comes when all of these jobs are done with it.

namespace hearth::job {

namespace {

using Shards = absl::Span<const train::BatchView>;

// The job's current epoch, as DataSpec numbers batches (EpochOfBatches).
int64_t EpochOf(const AttachedJob& job) {
  return job.options.data.EpochOfBatches(job.trainer.epoch());
}

bool IsDone(const AttachedJob& job) {
  return job.trainer.Done() || (job.until_epoch.has_value() &&
                                job.trainer.epoch() >= *job.until_epoch);
}

// Whether all jobs train on the GPU that keeps rows.
bool TrainWhereRowsAre(const std::vector<AttachedJob*>& jobs) {
  return std::all_of(jobs.begin(), jobs.end(), [](const AttachedJob* job) {
    return job->options.train.gpu == strategy::kRowsOnGpu.gpu;
  });
}

// Seconds that a pass takes if nobody trains on its batches: seconds of its
// slowest stage.
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
    ForAll(attached_, [](AttachedJob& job) { return job.trainer.Stop(); });
  }
  while (!attached_.empty()) Detach(*attached_.back(), status);
  return status;
}

absl::Status TrainRun::RunAll() {
  while (true) {
    HEARTH_RETURN_IF_ERROR(EndEpochs());
    AttachedJobs more = host_.Attach(PickEpoch());
    if (attached_.empty() && more.empty()) return absl::OkStatus();
    if (!started_) {
      const absl::Status status = Start(more);
      if (!status.ok()) {
        for (AttachedJob* job : more) Detach(*job, status);
        return status;
      }
      if (!started_) continue;
    }
    HEARTH_RETURN_IF_ERROR(BeginJobs(more));
    const std::optional<int64_t> epoch = PickEpoch();
    // A job resumed from a checkpoint may have to end an epoch first.
    const bool all_train = std::none_of(
        in_epoch_.begin(), in_epoch_.end(), [](const AttachedJob* job) {
          return job->report_pending || IsDone(*job);
        });
    if (epoch.has_value() && all_train) {
      HEARTH_RETURN_IF_ERROR(RunEpoch(*epoch));
    }
  }
}

// Takes the strategy, with the memory that the first job needs; other jobs add
// their models to it. A job whose model can never fit is detached, and the next
// job is the first.
absl::Status TrainRun::Start(AttachedJobs& jobs) {
  while (!jobs.empty()) {
    const absl::Status status = StartWith(*jobs.front());
    started_ = status.ok();
    const bool never_fits = absl::IsResourceExhausted(status) &&
                            WaitCauseOf(status) == WaitCause::kNone &&
                            !source_.has_memory();
    if (!never_fits) return status;
    Detach(*jobs.front(), status);
    jobs.erase(jobs.begin());
  }
  return absl::OkStatus();
}

absl::Status TrainRun::StartWith(AttachedJob& first) {
  HEARTH_RETURN_IF_ERROR(source_.TakeStrategy(
      {.bytes = [&](const sample::BatchShape& shape) -> uint64_t {
         return first.trainer.ModelBytes(shape);
       },
       .parameter_bytes = first.trainer.ParameterBytes(),
       .kept_bytes = first.trainer.KeptBytes()}));
  const BatchOptions& data = first.options.data;
  // A job whose epochs are all trained is prepared for its test.
  return source_.PrepareEpoch(
      data.EpochOfBatches(std::min(first.trainer.epoch(), data.epochs - 1)));
}

absl::Status TrainRun::BeginJobs(const AttachedJobs& jobs) {
  const sample::BatchShape shape = source_.largest_batch();
  AttachedJobs accepted;
  for (AttachedJob* job : jobs) {
    absl::Status status = job->trainer.ReserveGpu(shape);
    if (status.ok()) {
      status =
          models_.Add(job, {.bytes = job->trainer.ModelBytes(shape),
                            .kept_bytes = job->trainer.KeptBytes(),
                            .parameter_bytes = job->trainer.ParameterBytes()});
    }
    if (status.ok()) {
      accepted.push_back(job);
    } else {
      Detach(*job, status);
    }
  }
  attached_.insert(attached_.end(), accepted.begin(), accepted.end());
  const store::SelfLoops* self_loops = nullptr;
  if (std::any_of(accepted.begin(), accepted.end(), [](const AttachedJob* job) {
        return train::CountsSelfLoops(job->options.train.model);
      })) {
    HEARTH_ASSIGN_OR_RETURN(self_loops, source_.CountSelfLoops());
  }
  const store::Manifest& manifest = source_.dataset().manifest();
  const PassSchedule& passes = source_.passes();
  ForAll(accepted, [&](AttachedJob& job) -> absl::Status {
    HEARTH_RETURN_IF_ERROR(job.trainer.Begin(self_loops));
    if (job.options.part == TrainPart::kTest) job.report_pending = false;
    if (!job.is_running) job.observer.OnRunning();
    job.is_running = true;
    job.observer.OnLog(
        Severity::kInfo,
        absl::StrFormat("dataset %s (%s), strategy %s: %d training nodes, %d "
                        "batches an epoch",
                        manifest.name, manifest.fingerprint,
                        strategy::Name(job.options.data.strategy),
                        passes.num_train(), job.trainer.NumBatches()));
    if (!job.options.HasModel()) return absl::OkStatus();
    if (passes.num_valid() == 0 && job.options.part != TrainPart::kTest) {
      job.observer.OnLog(Severity::kWarning,
                         "no validation: the dataset has no validation nodes "
                         "with labels");
    }
    if (passes.num_test() == 0 && job.options.part != TrainPart::kTraining) {
      job.observer.OnLog(Severity::kWarning,
                         "no test: the dataset has no test nodes with labels");
    }
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

// Returns the next epoch and puts the jobs at this epoch into `in_epoch_`;
// nullopt without jobs.
std::optional<int64_t> TrainRun::PickEpoch() {
  in_epoch_.clear();
  if (attached_.empty()) return std::nullopt;
  std::set<int64_t> epochs;
  for (const AttachedJob* job : attached_) epochs.insert(EpochOf(*job));
  const int64_t next = FirstAfterLongestGap(
      epochs, attached_.front()->options.data.NumEpochKeys());
  for (AttachedJob* job : attached_) {
    if (EpochOf(*job) == next) in_epoch_.push_back(job);
  }
  return next;
}

// Reports the epoch that jobs have ended, and detaches jobs that are done.
absl::Status TrainRun::EndEpochs() {
  PickEpoch();
  Report();
  HEARTH_RETURN_IF_ERROR(DetachStopped());
  HEARTH_RETURN_IF_ERROR(EndJobs());
  DetachSlowest();
  return absl::OkStatus();
}

// The job needs no further checkpoint: it has just written the epoch's.
void TrainRun::DetachSlowest() {
  const std::optional<double> seconds = std::exchange(pass_seconds_, {});
  if (!seconds.has_value()) return;
  if (AttachedJob* slowest = host_.PickSlowest(*seconds)) {
    Detach(*slowest, absl::CancelledError("goes on by itself"));
  }
}

void TrainRun::Report() {
  std::vector<EndedEpoch> ended;
  for (AttachedJob* job : in_epoch_) {
    if (!std::exchange(job->report_pending, false)) continue;
    const std::optional<EpochReport>& report = job->trainer.last_epoch();
    if (report.has_value()) ended.push_back({*job, *report});
  }
  if (ended.empty()) return;
  host_.Report(absl::MakeSpan(ended));
  for (EndedEpoch& epoch : ended) {
    if (!epoch.status.ok()) Detach(epoch.job, epoch.status);
  }
}

// Tests jobs that have trained all epochs and reported them, and detaches them.
absl::Status TrainRun::EndJobs() {
  AttachedJobs done;
  for (AttachedJob* job : AttachedJobs(attached_)) {
    if (!IsDone(*job) || job->report_pending) continue;
    if (job->until_epoch.has_value()) {
      Detach(*job, Complete(*job, {}));
    } else {
      done.push_back(job);
    }
  }
  if (done.empty()) return absl::OkStatus();
  in_epoch_ = std::move(done);
  ForAll(in_epoch_, [](AttachedJob& job) { return job.trainer.KeepBest(); });
  strategy::PassReport test;
  // Jobs without a test do not wait for the test of others.
  for (AttachedJob* job : AttachedJobs(in_epoch_)) {
    if (job->options.part == TrainPart::kTraining) Finish(*job, test);
  }
  if (in_epoch_.empty()) return absl::OkStatus();
  if (source_.passes().num_test() > 0) {
    ForAll(in_epoch_, [](AttachedJob& job) {
      job.trainer.StartTest();
      return absl::OkStatus();
    });
    HEARTH_RETURN_IF_ERROR(Evaluate(source_.passes().Testing(), test));
  }
  for (AttachedJob* job : AttachedJobs(in_epoch_)) Finish(*job, test);
  return absl::OkStatus();
}

void TrainRun::Finish(AttachedJob& job, const strategy::PassReport& test) {
  std::optional<TrainReport> report;
  ForAll({&job}, [&](AttachedJob& one) -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(report, one.trainer.Finish(test));
    return absl::OkStatus();
  });
  // A job whose Finish failed is detached already.
  if (report.has_value()) Detach(job, Complete(job, *std::move(report)));
}

// Adds what the run knows to a trainer's report.
TrainReport TrainRun::Complete(const AttachedJob& job,
                               TrainReport report) const {
  report.memory = source_.memory();
  report.cuts = source_.cuts();
  report.memory_limit_bytes = ledger_.most_bytes();
  for (const strategy::MemoryShare& share : job.trainer.gpu_memory().shares) {
    report.memory.shares.push_back(share);
  }
  if (const uint64_t bytes = models_.peak_bytes(); bytes > 0) {
    report.memory.Add("other models", bytes);
  }
  // The larger of this run's bound and the bound of making the partition.
  report.memory_bound_bytes = std::max(
      report.memory.TotalBytes(), source_.partitioning_memory().TotalBytes());
  report.first_batch_seconds = job.first_batch_seconds;
  report.warm_start = source_.warm();
  report.verified_once = source_.verified_once();
  report.preparations = source_.preparations();
  report.partition = source_.partition();
  report.history = source_.history();
  report.exact = source_.passes().Training(0).history == nullptr &&
                 strategy::DeliversInOrder(job.options.data.strategy);
  report.peers = job.peers;
  return report;
}

absl::Status TrainRun::RunEpoch(int64_t epoch) {
  HEARTH_RETURN_IF_ERROR(source_.dataset().CheckUnchanged());
  HEARTH_RETURN_IF_ERROR(source_.PrepareEpoch(epoch));
  HEARTH_RETURN_IF_ERROR(Train(epoch));
  // The pass may have read what changed after the first check.
  HEARTH_RETURN_IF_ERROR(source_.dataset().CheckUnchanged());
  strategy::PassReport validation;
  if (source_.passes().num_valid() > 0 && !in_epoch_.empty()) {
    ForAll(in_epoch_, [](AttachedJob& job) {
      job.trainer.StartValidation();
      return absl::OkStatus();
    });
    HEARTH_RETURN_IF_ERROR(Evaluate(source_.passes().Validation(), validation));
  }
  source_.LogAhead();
  ForAll(in_epoch_, [&](AttachedJob& job) {
    job.report_pending = true;
    return job.trainer.EndEpoch(validation);
  });
  return absl::OkStatus();
}

// Trains the rest of the epoch, from the first batch that a job needs.
absl::Status TrainRun::Train(int64_t epoch) {
  AttachedJobs training;
  for (AttachedJob* job : in_epoch_) {
    const ModelTrainer& trainer = job->trainer;
    if (trainer.next_batch() < trainer.NumBatches()) training.push_back(job);
  }
  if (training.empty()) return absl::OkStatus();
  strategy::Pass pass = source_.passes().Training(epoch);
  pass.first_batch =
      (*std::min_element(training.begin(), training.end(),
                         [](const AttachedJob* a, const AttachedJob* b) {
                           return a->trainer.next_batch() <
                                  b->trainer.next_batch();
                         }))
          ->trainer.next_batch();
  sample::HistoryPolicy history;
  if (pass.history != nullptr) {
    history = *pass.history;
    history.live = training.front()->trainer.LiveHistories();
    pass.history = &history;
  }
  int64_t batch = pass.first_batch;
  strategy::PassReport part;
  is_training_ = true;
  const absl::Status status = RunPass(
      pass, std::move(training),
      [&](Shards shards) {
        AttachedJobs takers;
        for (AttachedJob* job : in_pass_) {
          if (job->trainer.next_batch() == batch) takers.push_back(job);
        }
        ++batch;
        ForAll(takers, [&](AttachedJob& job) -> absl::Status {
          HEARTH_RETURN_IF_ERROR(job.trainer.TrainBatch(shards));
          if (!job.trainer.CheckpointIsDue()) return absl::OkStatus();
          return job.trainer.WriteCheckpoint(source_.PassSoFar());
        });
      },
      part);
  is_training_ = false;
  pass_seconds_ = SecondsOfData(part);
  ForAll(in_pass_, [&](AttachedJob& job) {
    job.trainer.EndTraining(part);
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
        ForAll(in_pass_, [&](AttachedJob& job) {
          return job.trainer.EvaluateBatch(shards);
        });
      },
      report);
  in_pass_.clear();
  return status;
}

// Runs a pass for `jobs`, which are `in_pass_` until they are detached, also
// after the pass. OK, too, if the pass ended early because no job was left.
absl::Status TrainRun::RunPass(const strategy::Pass& pass, AttachedJobs jobs,
                               absl::FunctionRef<void(Shards)> deliver,
                               strategy::PassReport& report) {
  strategy::Pass shared = pass;
  shared.rows_on_gpu = TrainWhereRowsAre(jobs);
  in_pass_ = std::move(jobs);
  bool is_first = true;
  const auto count = [&] {
    for (const AttachedJob* job : in_pass_)
      job->metrics.OnPass(report, is_first);
    is_first = false;
  };
  absl::Status status = source_.RunPass(
      shared,
      [&](Shards shards) -> absl::Status {
        const double now = clock_.SteadySeconds();
        for (AttachedJob* job : in_pass_) {
          if (job->first_batch_seconds.has_value()) continue;
          job->first_batch_seconds = now - job->begin_seconds;
        }
        deliver(shards);
        count();
        // Not before the batch is trained, since `report` counts it already.
        HEARTH_RETURN_IF_ERROR(DetachStopped());
        if (in_pass_.empty()) return absl::CancelledError("nobody is left");
        return absl::OkStatus();
      },
      report);
  count();
  if (in_pass_.empty() && absl::IsCancelled(status)) status = absl::OkStatus();
  const auto jobs_left = static_cast<int64_t>(in_pass_.size());
  const int64_t bytes = report.bytes_read.value_or(0);
  for (AttachedJob* job : in_pass_) {
    job->peers.bytes_alone += bytes;
    job->peers.bytes_charged += bytes / jobs_left;
    for (const AttachedJob* other : in_pass_) {
      if (other != job) job->peers.jobs.insert(other->options.name);
    }
  }
  if (jobs_left > 1) host_.OnShared(bytes * (jobs_left - 1));
  return status;
}

// Detaches jobs that were asked to stop. CANCELLED if all jobs were: they then
// stay attached.
absl::Status TrainRun::DetachStopped() {
  AttachedJobs stopped;
  for (AttachedJob* job : attached_) {
    if (job->stop.stop_requested()) stopped.push_back(job);
  }
  if (stopped.empty()) return absl::OkStatus();
  if (stopped.size() == attached_.size())
    return absl::CancelledError("stopped");
  const AttachedJobs training = is_training_ ? in_pass_ : AttachedJobs();
  ForAll(stopped, [&](AttachedJob& job) {
    if (std::count(training.begin(), training.end(), &job) > 0) {
      job.trainer.EndTraining(source_.PassSoFar());
    }
    HEARTH_RETURN_IF_ERROR(job.trainer.Stop());
    return absl::CancelledError("stopped");
  });
  return absl::OkStatus();
}

// Detaches each job whose call fails, with the error as its result.
void TrainRun::ForAll(const AttachedJobs& jobs,
                      absl::FunctionRef<absl::Status(AttachedJob&)> call) {
  if (jobs.empty()) return;
  const AttachedJobs called = jobs;
  const std::vector<absl::Status> results = host_.ForAll(called, call);
  for (size_t i = 0; i < called.size(); ++i) {
    if (!results[i].ok()) Detach(*called[i], results[i]);
  }
}

void TrainRun::Detach(AttachedJob& job, absl::StatusOr<TrainReport> result) {
  std::erase(attached_, &job);
  std::erase(in_epoch_, &job);
  std::erase(in_pass_, &job);
  models_.Remove(&job);
  host_.Detach(job, std::move(result));
}

namespace {

// Host of a single job, which runs on the run's own thread.
class SingleJobHost final : public JobHost {
 public:
  explicit SingleJobHost(AttachedJob& job) : job_(job) {}

  std::vector<AttachedJob*> Attach(
      std::optional<int64_t> /*next_epoch*/) override {
    if (std::exchange(has_attached_, true)) return {};
    return {&job_};
  }

  std::vector<absl::Status> ForAll(
      absl::Span<AttachedJob* const> jobs,
      absl::FunctionRef<absl::Status(AttachedJob&)> call) override {
    std::vector<absl::Status> results;
    for (AttachedJob* job : jobs) results.push_back(call(*job));
    return results;
  }

  int max_steps() const override { return 1; }

  void Report(absl::Span<EndedEpoch> epochs) override {
    for (EndedEpoch& epoch : epochs) {
      epoch.status = epoch.job.observer.OnEpoch(epoch.report);
    }
  }

  AttachedJob* PickSlowest(double /*pass_seconds*/) override { return nullptr; }

  void OnShared(int64_t /*bytes*/) override {}

  void Detach(AttachedJob& /*job*/,
              absl::StatusOr<TrainReport> result) override {
    result_ = std::move(result);
  }

  absl::StatusOr<TrainReport> result() && { return std::move(result_); }

 private:
  AttachedJob& job_;
  bool has_attached_ = false;
  absl::StatusOr<TrainReport> result_ = absl::InternalError("still attached");
};

}  // namespace

absl::StatusOr<TrainReport> TrainAlone(const JobEnvironment& environment,
                                       BatchSource& source, AttachedJob job) {
  SingleJobHost host(job);
  const absl::Status status = TrainRun({.source = source,
                                        .memory = environment.memory,
                                        .clock = environment.clock,
                                        .host = host})
                                  .Run();
  absl::StatusOr<TrainReport> result = std::move(host).result();
  // An error of the data path after the job's end is the job's result, too.
  if (result.ok()) HEARTH_RETURN_IF_ERROR(status);
  return result;
}

}  // namespace hearth::job
