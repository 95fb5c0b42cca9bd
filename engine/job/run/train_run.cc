#include "engine/job/run/train_run.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/history.h"
#include "engine/store/graph.h"
#include "engine/store/manifest.h"
#include "engine/store/row_codec.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"

// A run, step by step:
//   1. Attach the first jobs; take the strategy and prepare their epoch.
//   2. Ask each job what it needs next. Validations and tests that are due run
//      first; then the ended epochs are reported, for all jobs at once, and
//      jobs that were asked to stop or are done are detached.
//   3. Attach new jobs. If a job has no wish at present, wait for it.
//      Answer requests for batches, for as long as there are some.
//   4. Train an epoch: check that the dataset's files are unchanged, prepare
//      where new batches are due, run the training pass from the first batch
//      that a job needs.
//   5. When no job is left and none is to come, the run is over.
// A run that follows another machine's does step 2 without evaluations, then
// attaches and makes the pass that it is told.
// In a pass each batch goes to the jobs whose next batch it is; the next batch
// comes when all of these jobs are done with it.

namespace hearth::job {

namespace {

// Longest time until a run sees that a job is to stop, or that another has
// come, while it waits for a wish.
constexpr absl::Duration kPoll = absl::Milliseconds(50);

// The job's current epoch, as DataSpec numbers batches (EpochOfBatches).
int64_t EpochOf(const AttachedJob& job) {
  return job.options.data.EpochOfBatches(job.wish.epoch);
}

bool EndsWithoutTest(const AttachedJob& job) {
  return job.until_epoch.has_value() && job.wish.epoch >= *job.until_epoch;
}

// Whether all jobs train on the GPU that keeps rows.
bool TrainWhereRowsAre(const std::vector<AttachedJob*>& jobs) {
  return std::all_of(jobs.begin(), jobs.end(), [](const AttachedJob* job) {
    return job->options.train.gpu == strategy::kRowsOnGpu.gpu;
  });
}

// Whether all jobs would rather take rows in place.
bool TakeRowsInPlace(const std::vector<AttachedJob*>& jobs,
                     const sample::BatchShape& shape) {
  return std::all_of(jobs.begin(), jobs.end(), [&](const AttachedJob* job) {
    return job->member.BytesInPlace(shape).has_value();
  });
}

// Whether all jobs pass batches on to clients.
bool AreFeeds(const std::vector<AttachedJob*>& jobs) {
  return std::all_of(jobs.begin(), jobs.end(), [](const AttachedJob* job) {
    return job->options.feed.has_value();
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
  const absl::Status status = host_.follows() ? FollowAll() : RunAll();
  if (absl::IsCancelled(status)) {
    ForAll(attached_, [](AttachedJob& job) { return job.member.Stop(); });
  }
  while (!attached_.empty()) Detach(*attached_.back(), status);
  return status;
}

absl::Status TrainRun::RunAll() {
  while (true) {
    HEARTH_RETURN_IF_ERROR(EndEpochs());
    AttachedJobs more = host_.Attach(NextEpoch());
    if (attached_.empty() && more.empty()) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(StartOnce(more));
    if (!started_) continue;
    if (!more.empty()) {
      HEARTH_RETURN_IF_ERROR(BeginJobs(more));
      // A resumed job may have to report or end an epoch first.
      continue;
    }
    HEARTH_ASSIGN_OR_RETURN(const bool has_answered, AnswerRequests());
    if (has_answered) continue;
    if (!JobsWith(Wish::Kind::kNothing).empty() ||
        JobsWith(Wish::Kind::kRequests).size() == attached_.size()) {
      change_->Await(kPoll);
    } else if (const std::optional<int64_t> epoch = NextEpoch();
               epoch.has_value()) {
      AttachedJobs jobs = JobsWith(Wish::Kind::kTraining);
      std::erase_if(jobs, [&](const AttachedJob* job) {
        return EpochOf(*job) != *epoch;
      });
      host_.OnPass(PassTurn::Kind::kTraining, *epoch, jobs);
      HEARTH_RETURN_IF_ERROR(Train(*epoch, jobs));
    }
  }
}

absl::Status TrainRun::FollowAll() {
  while (true) {
    HEARTH_RETURN_IF_ERROR(Tidy());
    std::optional<JobHost::Turn> turn = host_.AwaitTurn();
    if (!turn.has_value()) return absl::OkStatus();
    if (!turn->more.empty()) {
      HEARTH_RETURN_IF_ERROR(StartOnce(turn->more));
      if (!started_) continue;
      HEARTH_RETURN_IF_ERROR(BeginJobs(turn->more));
      HEARTH_RETURN_IF_ERROR(Tidy());
    }
    HEARTH_RETURN_IF_ERROR(TakeTurn(*turn));
  }
}

// Makes a pass for those of its jobs that are left here: the calls of others
// have failed, or will, on all ranks.
absl::Status TrainRun::TakeTurn(const JobHost::Turn& turn) {
  const Wish::Kind kind =
      turn.kind == PassTurn::Kind::kTraining     ? Wish::Kind::kTraining
      : turn.kind == PassTurn::Kind::kValidation ? Wish::Kind::kValidation
      : turn.kind == PassTurn::Kind::kTest       ? Wish::Kind::kTest
                                                 : Wish::Kind::kNothing;
  const bool trains = kind == Wish::Kind::kTraining;
  AttachedJobs jobs;
  for (AttachedJob* job : turn.in_pass) {
    if (std::count(attached_.begin(), attached_.end(), job) == 0) continue;
    if (job->wish.kind == kind && (!trains || EpochOf(*job) == turn.epoch)) {
      jobs.push_back(job);
    } else {
      Detach(*job, WaitForPeerError("rank 0 is at another pass"));
    }
  }
  if (jobs.empty()) return absl::OkStatus();
  return trains ? Train(turn.epoch, jobs) : Evaluate(kind, jobs);
}

// Takes the strategy if that was not done; `jobs` loses those that cannot
// begin.
absl::Status TrainRun::StartOnce(AttachedJobs& jobs) {
  if (started_) return absl::OkStatus();
  const absl::Status status = Start(jobs);
  if (!status.ok()) {
    for (AttachedJob* job : jobs) Detach(*job, status);
  }
  return status;
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
         return ModelBytes(first.member, shape);
       },
       .parameter_bytes = first.member.ParameterBytes(),
       .kept_bytes = first.member.KeptBytes(/*shape=*/{})}));
  // An error is this job's own: the run meets it again once all have begun.
  const absl::StatusOr<Wish> wish = first.member.Next();
  if (wish.ok()) first.wish = *wish;
  const BatchOptions& data = first.options.data;
  // A job whose epochs are all trained is prepared for its test.
  return source_.PrepareJob(data, std::min(first.wish.epoch, data.epochs - 1));
}

// What a member holds for batches of `shape` as the strategy delivers them.
uint64_t TrainRun::ModelBytes(const Member& member,
                              const sample::BatchShape& shape) const {
  uint64_t bytes = member.ModelBytes(shape);
  if (strategy::LeavesRowsInPlace(source_.strategy())) {
    bytes += member.BytesInPlace(shape).value_or(0);
  }
  return bytes;
}

absl::Status TrainRun::BeginJobs(const AttachedJobs& jobs) {
  const sample::BatchShape shape = source_.largest_batch();
  AttachedJobs accepted;
  for (AttachedJob* job : jobs) {
    const Member& member = job->member;
    absl::Status status = job->member.Reserve(shape);
    if (status.ok()) {
      status = models_.Add(job, {.bytes = ModelBytes(member, shape),
                                 .kept_bytes = member.KeptBytes(shape),
                                 .parameter_bytes = member.ParameterBytes()});
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
  ForAll(accepted, [&](AttachedJob& job) -> absl::Status {
    job.member.SetOnChange([change = change_] { change->Raise(); });
    HEARTH_RETURN_IF_ERROR(job.member.Begin(self_loops));
    if (!job.is_running) job.observer.OnRunning();
    job.is_running = true;
    LogBegin(job);
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

void TrainRun::LogBegin(AttachedJob& job) {
  const store::Manifest& manifest = source_.dataset().manifest();
  const PassSchedule& passes = source_.passes();
  job.observer.OnLog(
      Severity::kInfo,
      absl::StrFormat("dataset %s (%s), strategy %s: %d training nodes, %d "
                      "batches an epoch",
                      manifest.name, manifest.fingerprint,
                      strategy::Name(source_.strategy()), passes.num_train(),
                      strategy::NumBatches(passes.num_train(),
                                           job.options.data.batch_size)));
  if (!job.options.HasModel()) return;
  if (passes.num_valid() == 0 && job.options.part != TrainPart::kTest) {
    job.observer.OnLog(Severity::kWarning,
                       "no validation: the dataset has no validation nodes "
                       "with labels");
  }
  if (passes.num_test() == 0 && job.options.part != TrainPart::kTraining) {
    job.observer.OnLog(Severity::kWarning,
                       "no test: the dataset has no test nodes with labels");
  }
}

// Asks each job for its wish; an error ends the job.
void TrainRun::AskAll() {
  for (AttachedJob* job : AttachedJobs(attached_)) {
    absl::StatusOr<Wish> wish = job->member.Next();
    if (wish.ok()) {
      job->wish = *wish;
    } else {
      Detach(*job, wish.status());
    }
  }
}

TrainRun::AttachedJobs TrainRun::JobsWith(Wish::Kind kind) const {
  AttachedJobs jobs;
  for (AttachedJob* job : attached_) {
    if (job->wish.kind == kind) jobs.push_back(job);
  }
  return jobs;
}

// The jobs that wish for this evaluation. A job that evaluates again and again,
// as clients of feeds may, lets others train in between.
TrainRun::AttachedJobs TrainRun::JobsThatMay(Wish::Kind evaluate) const {
  AttachedJobs jobs = JobsWith(evaluate);
  if (!JobsWith(Wish::Kind::kTraining).empty()) {
    std::erase_if(jobs, [evaluate](const AttachedJob* job) {
      return job->evaluated.contains(evaluate);
    });
  }
  return jobs;
}

// The epoch that is trained next; nullopt without jobs.
std::optional<int64_t> TrainRun::NextEpoch() const {
  AttachedJobs jobs = JobsWith(Wish::Kind::kTraining);
  if (jobs.empty()) jobs = attached_;
  if (jobs.empty()) return std::nullopt;
  std::set<int64_t> epochs;
  for (const AttachedJob* job : jobs) epochs.insert(EpochOf(*job));
  return FirstAfterLongestGap(epochs,
                              jobs.front()->options.data.NumEpochKeys());
}

// Reports the epochs that jobs have ended, asks all for their wishes, and
// detaches jobs that are done or are to stop.
absl::Status TrainRun::Tidy() {
  Report();
  HEARTH_RETURN_IF_ERROR(DetachStopped());
  AskAll();
  FinishDone();
  return absl::OkStatus();
}

// Tidies, and runs the evaluations that are due.
absl::Status TrainRun::EndEpochs() {
  while (true) {
    HEARTH_RETURN_IF_ERROR(Tidy());
    AttachedJobs jobs = JobsThatMay(Wish::Kind::kValidation);
    const bool validates = !jobs.empty();
    if (!validates) jobs = JobsThatMay(Wish::Kind::kTest);
    if (jobs.empty()) break;
    host_.OnPass(
        validates ? PassTurn::Kind::kValidation : PassTurn::Kind::kTest,
        /*epoch=*/0, jobs);
    HEARTH_RETURN_IF_ERROR(Evaluate(
        validates ? Wish::Kind::kValidation : Wish::Kind::kTest, jobs));
  }
  DetachSlowest();
  LeaveSlowStrategy();
  return absl::OkStatus();
}

absl::Status TrainRun::Evaluate(Wish::Kind kind, const AttachedJobs& jobs) {
  for (AttachedJob* job : jobs) job->evaluated.insert(kind);
  const PassSchedule& passes = source_.passes();
  strategy::PassReport report;
  return RunPass(
      kind == Wish::Kind::kValidation ? passes.Validation() : passes.Testing(),
      jobs, report);
}

// The job needs no further checkpoint: it has just written the epoch's.
void TrainRun::DetachSlowest() {
  const std::optional<double> seconds = std::exchange(pass_seconds_, {});
  if (!seconds.has_value()) return;
  if (AttachedJob* slowest = host_.PickSlowest(*seconds)) {
    Detach(*slowest, absl::CancelledError("goes on by itself"));
  }
}

// A job alone goes on by itself, too, to choose its strategy again.
void TrainRun::LeaveSlowStrategy() {
  if (attached_.size() != 1) return;
  AttachedJob& job = *attached_.front();
  const int64_t trained = job.wish.epoch;
  if (job.wish.kind != Wish::Kind::kTraining || job.wish.first_batch > 0 ||
      !host_.MayLetGo() ||
      !source_.LeavesStrategy(trained, job.options.data.epochs)) {
    return;
  }
  host_.LetGo(job);
  Detach(job, absl::CancelledError("chooses its strategy again"));
}

void TrainRun::Report() {
  // The reports live as long as the call.
  std::vector<std::pair<AttachedJob*, EpochReport>> reports;
  for (AttachedJob* job : attached_) {
    std::optional<EpochReport> report = job->member.TakeReport();
    if (report.has_value()) reports.emplace_back(job, *std::move(report));
  }
  if (reports.empty()) return;
  std::vector<EndedEpoch> ended;
  for (const auto& [job, report] : reports) ended.push_back({*job, report});
  host_.Report(absl::MakeSpan(ended));
  for (EndedEpoch& epoch : ended) {
    if (!epoch.status.ok()) Detach(epoch.job, epoch.status);
  }
}

// Detaches jobs that need no pass any more.
void TrainRun::FinishDone() {
  for (AttachedJob* job : AttachedJobs(attached_)) {
    if (EndsWithoutTest(*job)) {
      Detach(*job, Complete(*job, {}));
      continue;
    }
    if (job->wish.kind != Wish::Kind::kDone) continue;
    std::optional<TrainReport> report;
    ForAll({job}, [&](AttachedJob& one) -> absl::Status {
      HEARTH_ASSIGN_OR_RETURN(report, one.member.Finish());
      return absl::OkStatus();
    });
    // A job whose Finish failed is detached already.
    if (report.has_value()) Detach(*job, Complete(*job, *std::move(report)));
  }
}

// Adds what the run knows to a member's report.
TrainReport TrainRun::Complete(const AttachedJob& job,
                               TrainReport report) const {
  report.memory = source_.memory();
  report.cuts = source_.cuts();
  report.memory_limit_bytes = ledger_.most_bytes();
  const strategy::MemoryEstimate gpu_memory = job.member.gpu_memory();
  for (const strategy::MemoryShare& share : gpu_memory.shares) {
    report.memory.shares.push_back(share);
  }
  if (const uint64_t bytes = models_.peak_bytes(); bytes > 0) {
    report.memory.Add("other models", bytes);
  }
  // The larger of this run's bound and the bound of making the copy of the rows
  // or the partition.
  report.memory_bound_bytes = std::max(report.memory.TotalBytes(),
                                       source_.opening_memory().TotalBytes());
  report.first_batch_seconds = job.first_batch_seconds;
  report.warm_start = source_.warm();
  report.verified_once = source_.verified_once();
  report.preparations = source_.preparations();
  report.partition = source_.partition();
  report.history = source_.history();
  report.automatic = source_.automatic();
  report.exact = source_.passes().Training(0).history == nullptr &&
                 strategy::IsExact(job.options.data.strategy) &&
                 !source_.row_dtype().has_value();
  if (source_.row_dtype().has_value()) {
    report.row_dtype = std::string(store::RowTypeName(*source_.row_dtype()));
  }
  report.peers = job.peers;
  return report;
}

// Answers the requests that jobs have, each in a pass of its own; a job alone
// waits for more. False if there are none, or it is others' turn to train.
absl::StatusOr<bool> TrainRun::AnswerRequests() {
  const bool is_alone = attached_.size() == 1;
  AttachedJobs jobs = JobsWith(Wish::Kind::kRequests);
  if (!is_alone) {
    std::erase_if(jobs,
                  [](const AttachedJob* job) { return job->wish.is_idle; });
  }
  const bool has_answered = std::exchange(has_answered_, false);
  if (jobs.empty() ||
      (has_answered && !JobsWith(Wish::Kind::kTraining).empty())) {
    return false;
  }
  for (AttachedJob* job : jobs) {
    // It may have been detached in another's pass.
    if (std::count(attached_.begin(), attached_.end(), job) == 0) continue;
    strategy::Pass pass = source_.passes().Requested(job->wish.request_epoch);
    pass.requests = job->member.Requests(/*may_wait=*/is_alone);
    strategy::PassReport report;
    HEARTH_RETURN_IF_ERROR(RunPass(pass, {job}, report));
  }
  has_answered_ = true;
  return true;
}

// Trains the rest of the epoch, for the jobs that are at it.
absl::Status TrainRun::Train(int64_t epoch, const AttachedJobs& jobs) {
  for (AttachedJob* job : attached_) job->evaluated.clear();
  HEARTH_RETURN_IF_ERROR(source_.PrepareEpoch(epoch));
  strategy::Pass pass = source_.passes().Training(epoch);
  sample::HistoryPolicy history;
  if (pass.history != nullptr && !jobs.empty()) {
    history = *pass.history;
    history.live = jobs.front()->member.LiveHistories();
    pass.history = &history;
  }
  strategy::PassReport report;
  HEARTH_RETURN_IF_ERROR(RunPass(pass, jobs, report));
  if (report.batches > 0) pass_seconds_ = SecondsOfData(report);
  if (report.batches == strategy::NumBatches(pass)) {
    source_.CompareWithChoice(report);
  }
  source_.LogAhead();
  return absl::OkStatus();
}

// Runs what `jobs` need of a pass. OK, too, if the pass ended early because no
// job was left.
absl::Status TrainRun::RunPass(strategy::Pass pass, const AttachedJobs& jobs,
                               strategy::PassReport& report) {
  HEARTH_RETURN_IF_ERROR(source_.dataset().CheckUnchanged());
  in_pass_ = jobs;
  ForAll(jobs, [](AttachedJob& job) { return job.member.BeginPass(job.wish); });
  // Jobs that have had all of its batches have no part in it.
  const int64_t num_batches = strategy::NumBatches(pass);
  const auto has_batches = [num_batches](const AttachedJob* job) {
    return job->wish.first_batch < num_batches;
  };
  const auto ended =
      std::stable_partition(in_pass_.begin(), in_pass_.end(), has_batches);
  const AttachedJobs without(ended, in_pass_.end());
  in_pass_.erase(ended, in_pass_.end());
  ForAll(without, [](AttachedJob& job) { return job.member.EndPass({}); });
  if (in_pass_.empty()) return absl::OkStatus();
  pass.first_batch = num_batches;
  for (const AttachedJob* job : in_pass_) {
    pass.first_batch = std::min(pass.first_batch, job->wish.first_batch);
  }
  absl::Status status = Deliver(pass, report);
  // The pass may have read what changed after the first check.
  if (status.ok()) status = source_.dataset().CheckUnchanged();
  ForAll(in_pass_, [&](AttachedJob& job) -> absl::Status {
    if (status.ok()) return job.member.EndPass(report);
    job.member.LeavePass(report);
    return absl::OkStatus();
  });
  in_pass_.clear();
  return status;
}

// Delivers the batches of `pass` to the jobs of `in_pass_`, less those that
// leave it.
absl::Status TrainRun::Deliver(strategy::Pass pass,
                               strategy::PassReport& report) {
  pass.rows_on_gpu = TrainWhereRowsAre(in_pass_);
  pass.rows_in_place = TakeRowsInPlace(in_pass_, source_.largest_batch());
  is_for_clients_ = AreFeeds(in_pass_);
  // The memory of one member serves all; it stays until the pass has ended.
  std::vector<std::shared_ptr<train::InputPool>> pools;
  for (const AttachedJob* job : in_pass_) {
    if (pools.empty()) pools = job->member.input_pools();
  }
  for (const auto& pool : pools) pass.input_pools.push_back(pool.get());
  int64_t batch = pass.first_batch;
  bool is_first = true;
  const auto count = [&] {
    NameSink(report);
    for (const AttachedJob* job : in_pass_) {
      job->metrics.OnPass(report, is_first);
    }
    is_first = false;
  };
  is_running_ = true;
  absl::Status status = source_.RunPass(
      pass,
      [&](Member::Shards shards) -> absl::Status {
        const double now = clock_.SteadySeconds();
        AttachedJobs takers;
        for (AttachedJob* job : in_pass_) {
          if (!job->first_batch_seconds.has_value()) {
            job->first_batch_seconds = now - job->begin_seconds;
          }
          if (job->member.next_batch() == batch) takers.push_back(job);
        }
        ++batch;
        ForAll(takers, [&](AttachedJob& job) {
          return job.member.Take(shards, [this] { return PassSoFar(); });
        });
        count();
        // Not before the batch is trained, since `report` counts it already.
        HEARTH_RETURN_IF_ERROR(DetachStopped());
        LetLeave();
        if (in_pass_.empty()) return absl::CancelledError("nobody is left");
        return absl::OkStatus();
      },
      report);
  is_running_ = false;
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
  const AttachedJobs running = is_running_ ? in_pass_ : AttachedJobs();
  ForAll(stopped, [&](AttachedJob& job) {
    if (std::count(running.begin(), running.end(), &job) > 0) {
      job.member.LeavePass(PassSoFar());
    }
    HEARTH_RETURN_IF_ERROR(job.member.Stop());
    return absl::CancelledError("stopped");
  });
  return absl::OkStatus();
}

// Takes jobs out of the running pass that want no more of it.
void TrainRun::LetLeave() {
  AttachedJobs leaving;
  for (AttachedJob* job : in_pass_) {
    if (job->member.WantsToLeave()) leaving.push_back(job);
  }
  for (AttachedJob* job : leaving) std::erase(in_pass_, job);
  ForAll(leaving, [&](AttachedJob& job) {
    job.member.LeavePass(PassSoFar());
    return absl::OkStatus();
  });
}

strategy::PassReport TrainRun::PassSoFar() const {
  strategy::PassReport report = source_.PassSoFar();
  NameSink(report);
  return report;
}

// What waits for clients is no training: the last stage is named after them.
void TrainRun::NameSink(strategy::PassReport& report) const {
  if (is_for_clients_ && !report.stages.empty()) {
    report.stages.back().name = "client";
  }
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

  bool MayLetGo() override { return false; }

  void LetGo(AttachedJob& /*job*/) override {}

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
