// A worker, step by step:
//   1. Wait for a job of the lane that may run, take it from the queue and
//      enter it into `running_`, under one lock, so that Cancel finds it in
//      either.
//   2. Move the job to PREPARING and run it; the runner moves it to RUNNING.
//   3. Decide its next state, by why it ended and by who asked for that.
//   4. Write that state, again and again while the disk does not take it.
//   5. Remove the job from `running_` and, if it waits, put it back into the
//      queue, under one lock.
// So a job that is neither queued nor running has ended in the store, or is
// held there.
#include "server/jobs/scheduler.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "server/jobs/plan_ahead.h"
#include "server/log.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"

namespace hearth::server {
namespace {

// Stores a job's events. A lost event (on a full disk) does not stop the job,
// unless it is the report of an epoch, which is kept nowhere else.
class StoredEvents final : public JobEvents {
 public:
  // Function that stores the report of an epoch.
  using EpochSink = std::function<absl::Status(const v1::EpochReport&)>;

  StoredEvents(JobStore& store, const QueuedJob& job, EpochSink on_epoch)
      : store_(store),
        id_(job.id),
        log_name_(job.LogName()),
        on_epoch_(std::move(on_epoch)) {}

  void OnRunning() override {
    StateUpdate update;
    update.state = v1::RUNNING;
    const absl::Status status = store_.ChangeState(id_, update);
    is_running_ = status.ok();
    Warn(status);
  }

  void Append(const v1::JobEvent& event) override {
    Warn(store_.Append(id_, event));
  }

  absl::Status OnFirstEpochKey(uint32_t key) override {
    return store_.SetFirstEpochKey(id_, key);
  }

  absl::Status OnEpoch(const v1::EpochReport& epoch) override {
    return on_epoch_(epoch);
  }

  // The store's count grows only at a daemon's start: one note per run is
  // enough.
  void OnDurable() override {
    if (has_progressed_) return;
    const absl::Status status = store_.ForgetInterruptions(id_);
    has_progressed_ = status.ok();
    Warn(status);
  }

  // Whether the store knows that the job is RUNNING.
  bool is_running() const { return is_running_; }

  // Whether work of this run is durable.
  bool has_progressed() const { return has_progressed_; }

 private:
  void Warn(const absl::Status& status) {
    if (!status.ok()) {
      LogWarning(log_name_, ": an event is lost: ", status.ToString());
    }
  }

  JobStore& store_;
  const std::string id_;
  const std::string log_name_;
  const EpochSink on_epoch_;
  bool is_running_ = false;
  // Whether the store has noted durable work of this run.
  bool has_progressed_ = false;
};

// "memory: the job may need 3.0 GiB ..."
std::string ReasonOf(const absl::Status& status) {
  const WaitCause cause = WaitCauseOf(status);
  return absl::StrCat(cause == WaitCause::kMemory      ? "memory"
                      : cause == WaitCause::kGpuMemory ? "GPU memory"
                      : cause == WaitCause::kDiskSpace ? "disk space"
                      : cause == WaitCause::kPlanSpace ? "plan space"
                      : cause == WaitCause::kClient    ? "client"
                      : cause == WaitCause::kPeer      ? "machines"
                                                       : "disk",
                      ": ", std::string(status.message()));
}

}  // namespace

Scheduler::Scheduler(JobStore& store, JobRunner& runner,
                     job::MemoryLedger& memory, plan::PlanStore& plans,
                     const Clock& clock, SchedulerOptions options)
    : store_(store),
      runner_(runner),
      memory_(memory),
      plans_(plans),
      clock_(clock),
      options_(options),
      queue_(
          options.wait,
          [this](uint64_t bytes) { return memory_.Availability(bytes); },
          [this](uint64_t bytes) { return plans_.HasRoomFor(bytes); },
          [this](const std::string& id) {
            return options_.client_waits && options_.client_waits(id);
          }) {
  memory_.SetOnRelease([this] { OnMemoryReleased(); });
  plans_.SetOnRelease([this] { Wake(); });
  if (!options_.prepares_ahead) return;
  ahead_ = std::make_unique<PlanAhead>(
      store_, [this](const v1::Job& job, std::stop_token stop) {
        return runner_.PrepareAhead(job, std::move(stop));
      });
}

Scheduler::~Scheduler() {
  static_cast<void>(Stop(absl::InfiniteDuration()));
  std::array<Workers, kNumLanes> workers;
  {
    absl::MutexLock lock(&mutex_);
    workers = std::move(workers_);
  }
  for (Workers& of_lane : workers) of_lane.threads.clear();
  ahead_.reset();
  // A group may end after its last job.
  if (options_.shared_passes != nullptr) options_.shared_passes->AwaitEnd();
  memory_.SetOnRelease(nullptr);
  plans_.SetOnRelease(nullptr);
}

void Scheduler::OnMemoryReleased() {
  absl::MutexLock lock(&mutex_);
  queue_.RetryNow(WaitCause::kGpuMemory);
  changed_.SignalAll();
}

void Scheduler::Wake() {
  absl::MutexLock lock(&mutex_);
  changed_.SignalAll();
}

void Scheduler::Load(const std::vector<v1::Job>& unended) {
  for (const v1::Job& job : unended) {
    if (!job.held()) Enqueue(job);
  }
}

void Scheduler::Start() {
  absl::MutexLock lock(&mutex_);
  workers_[static_cast<size_t>(Lane::kTraining)].most = static_cast<size_t>(
      options_.max_running_jobs * (options_.shared_passes == nullptr
                                       ? 1
                                       : options_.shared_passes->max_jobs()));
  workers_[static_cast<size_t>(Lane::kShort)].most =
      static_cast<size_t>(options_.max_short_jobs);
  AddWorker(Lane::kTraining);
  AddWorker(Lane::kShort);
}

void Scheduler::AddWorker(Lane lane) {
  Workers& workers = workers_[static_cast<size_t>(lane)];
  const size_t worker = workers.threads.size();
  workers.idle.insert(worker);
  workers.threads.emplace_back([this, lane, worker] { Work(lane, worker); });
}

void Scheduler::Enqueue(const v1::Job& job) {
  absl::MutexLock lock(&mutex_);
  // A job that has just ended may be resumed before its worker has removed it.
  while (running_.contains(job.id())) changed_.Wait(&mutex_);
  QueuedJob queued = QueuedJob::Of(job);
  const bool may_run = MayRun(queued);
  Add(std::move(queued));
  // A thread that looks for a job may look at all queued jobs.
  if (may_run) changed_.SignalAll();
}

bool Scheduler::MayRun(const QueuedJob& job) const {
  if (workers_[static_cast<size_t>(job.lane)].idle.empty()) return false;
  return job.lane == Lane::kShort || HasFreePlace() || Shares(job.sharing);
}

double Scheduler::LongestQueueSeconds() {
  absl::MutexLock lock(&mutex_);
  const double now = clock_.SteadySeconds();
  return now - queue_.OldestSince().value_or(now);
}

void Scheduler::SetTrialObserver(TrialObserver* observer) {
  absl::MutexLock lock(&mutex_);
  trial_observer_ = observer;
}

TrialObserver* Scheduler::trial_observer() {
  absl::MutexLock lock(&mutex_);
  return trial_observer_;
}

void Scheduler::Hold(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  if (IsQueued(id)) {
    Remove(id);
    // The job may have held up later ones.
    changed_.SignalAll();
    return;
  }
  const auto running = running_.find(id);
  if (running == running_.end()) return;
  running->second.held = true;
  running->second.stop.request_stop();
}

void Scheduler::Add(QueuedJob job) {
  job.queued_since = clock_.SteadySeconds();
  if (draining_ && job.begins_trial) {
    set_aside_[job.id] = std::move(job);
  } else {
    queue_.Add(std::move(job));
    LookAhead();
  }
}

bool Scheduler::IsQueued(const std::string& id) const {
  return queue_.Contains(id) || set_aside_.contains(id);
}

void Scheduler::SetDraining(bool draining) {
  absl::MutexLock lock(&mutex_);
  draining_ = draining;
  if (draining) {
    for (QueuedJob& job : queue_.TakeBeginningTrials()) {
      Forget(job.id);
      Add(std::move(job));
    }
  } else {
    for (auto& [id, job] : set_aside_) Add(std::move(job));
    set_aside_.clear();
  }
  changed_.SignalAll();
}

bool Scheduler::IsSetAside(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  return set_aside_.contains(id);
}

void Scheduler::Remove(const std::string& id) {
  set_aside_.erase(id);
  queue_.Remove(id);
  Forget(id);
  LookAhead();
}

absl::Status Scheduler::Release(absl::Span<const std::string> ids) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : ids) {
    while (running_.contains(id) && running_[id].held) changed_.Wait(&mutex_);
  }
  for (const std::string& id : ids) {
    if (running_.contains(id) || IsQueued(id)) continue;
    const absl::StatusOr<v1::Job> job = store_.Get(id);
    if (absl::IsNotFound(job.status())) continue;
    HEARTH_RETURN_IF_ERROR(job.status());
    if (!job->held() &&
        (job->state() == v1::QUEUED || job->state() == v1::WAITING)) {
      Add(QueuedJob::Of(*job));
    }
  }
  changed_.SignalAll();
  return absl::OkStatus();
}

void Scheduler::StopAfterEpoch(const std::string& id, EpochDecision decision) {
  absl::MutexLock lock(&mutex_);
  Run& run = running_[id];
  run.held = run.held || decision == EpochDecision::kHold;
  run.cancelled_by_user =
      run.cancelled_by_user || decision == EpochDecision::kCancel;
  run.stop.request_stop();
}

void Scheduler::RetryNow(WaitCause cause) {
  absl::MutexLock lock(&mutex_);
  ++retries_;
  queue_.RetryNow(cause);
  changed_.SignalAll();
}

absl::Status Scheduler::Cancel(const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(const bool has_ended, CancelQuietly(id));
  if (has_ended) runner_.Discard(id);
  if (TrialObserver* observer = trial_observer()) observer->OnEnded(id);
  return absl::OkStatus();
}

absl::StatusOr<bool> Scheduler::CancelQuietly(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto running = running_.find(id);
  if (running == running_.end()) {
    HEARTH_ASSIGN_OR_RETURN(const v1::Job job, store_.Get(id));
    if (HasEnded(job.state())) return false;
    // The job is queued or held.
    StateUpdate update;
    update.state = v1::CANCELLED;
    HEARTH_RETURN_IF_ERROR(store_.ChangeState(id, update));
    if (IsQueued(id)) Remove(id);
    // The job may have held up later ones.
    changed_.SignalAll();
    return true;
  }
  HEARTH_RETURN_IF_ERROR(store_.RequestCancel(id));
  running->second.cancelled_by_user = true;
  running->second.stop.request_stop();
  return false;
}

absl::Status Scheduler::Stop(absl::Duration patience) {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  changed_.SignalAll();
  if (options_.shared_passes != nullptr) options_.shared_passes->ForgetAll();
  expected_.clear();
  if (ahead_ != nullptr) ahead_->Stop();
  for (auto& [id, run] : running_) run.stop.request_stop();
  const double start = clock_.SteadySeconds();
  while (!running_.empty()) {
    const absl::Duration left =
        patience - absl::Seconds(clock_.SteadySeconds() - start);
    if (left <= absl::ZeroDuration()) return NotStopped(patience);
    changed_.WaitWithTimeout(&mutex_, left);
  }
  return absl::OkStatus();
}

absl::Status Scheduler::NotStopped(absl::Duration patience) const {
  return absl::DeadlineExceededError(absl::StrCat(
      "not stopped within ", absl::FormatDuration(patience), ": ",
      absl::StrJoin(running_, ", ", [](std::string* out, const auto& entry) {
        out->append(entry.first);
      })));
}

void Scheduler::Report(absl::Span<EpochOfJob> jobs) {
  TrialObserver* const observer = trial_observer();
  {
    absl::MutexLock lock(&mutex_);
    for (EpochOfJob& one : jobs) {
      const Run& run = running_.at(one.job.id());
      one.stop = run.stop.get_token();
      one.job = run.job;
    }
  }
  std::vector<EpochOfJob*> trials;
  for (EpochOfJob& one : jobs) {
    if (observer != nullptr && !one.job.sweep().empty()) {
      trials.push_back(&one);
    } else if (const absl::Status status =
                   store_.AppendEpoch(one.job.id(), one.report);
               !status.ok()) {
      one.decision = status;
    }
  }
  std::vector<std::string> begun;
  if (!trials.empty()) begun = observer->OnEpochs(trials);
  for (const EpochOfJob* one : trials) {
    // The job stops before its next batch, which waits for this call.
    if (one->decision.ok() && *one->decision != EpochDecision::kGoOn) {
      StopAfterEpoch(one->job.id(), *one->decision);
    }
  }
  // Jobs that begin may share the passes of these jobs: they are expected
  // before these continue. If this fails, the observer queues them again.
  const absl::Status queued = Release(begun);
  if (!queued.ok()) LogWarning("not queued yet: ", queued.ToString());
  absl::MutexLock lock(&mutex_);
  ExpectCandidates(running_.at(jobs.front().job.id()).sharing_key);
  // Candidates may have a place now whose first epoch is the next one.
  changed_.SignalAll();
}

bool Scheduler::GivePlace(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || !HasFreePlace()) return false;
  Run& run = running_.at(id);
  run.place = &run;
  run.sharing_key.clear();
  return true;
}

void Scheduler::Work(Lane lane, size_t worker) {
  while (std::optional<QueuedJob> job = TakeNext(lane, worker)) {
    const absl::Status lack = RunJob(*job);
    if (options_.shared_passes != nullptr)
      options_.shared_passes->Forget(job->id);
    if (!lack.ok()) {
      if (Requeue(*job, lack)) continue;
      StateUpdate update;
      update.state = v1::CANCELLED;
      runner_.Discard(job->id);
      Persist(*job, update);
    }
    // Before the job leaves `running_`, for which others wait.
    if (TrialObserver* observer = trial_observer()) observer->OnEnded(job->id);
    bool held = false;
    bool cancelled = false;
    {
      absl::MutexLock lock(&mutex_);
      const Run& run = running_[job->id];
      held = run.held;
      cancelled = run.cancelled_by_user;
      running_.erase(job->id);
      // The job may have ended before its plan was made ahead.
      if (ahead_ != nullptr) ahead_->Forget(job->id);
      LookAhead();
      changed_.SignalAll();
    }
    if (!held) continue;
    // The job may have been cancelled after it was put back as QUEUED, or
    // released before the scheduler knew that it was held.
    const absl::Status status =
        cancelled ? Cancel(job->id) : Release({job->id});
    if (!status.ok()) {
      LogError(job->LogName(), ": not ", cancelled ? "cancelled" : "queued",
               ": ", status.ToString());
    }
  }
}

std::optional<QueuedJob> Scheduler::TakeNext(Lane lane, size_t worker) {
  absl::MutexLock lock(&mutex_);
  Workers& workers = workers_[static_cast<size_t>(lane)];
  workers.idle.insert(worker);
  changed_.SignalAll();
  while (!stopping_) {
    if (*workers.idle.begin() != worker) {
      changed_.Wait(&mutex_);
      continue;
    }
    const double now = clock_.SteadySeconds();
    std::optional<QueuedJob> job = TakeOne(lane, now);
    if (job.has_value()) {
      workers.idle.erase(worker);
      if (workers.idle.empty() && workers.threads.size() < workers.most) {
        AddWorker(lane);
      }
      LookAhead();
      changed_.SignalAll();
      return job;
    }
    const double next = queue_.NextRetry(lane, now);
    changed_.WaitWithTimeout(&mutex_, absl::Seconds(next - now));
  }
  return std::nullopt;
}

std::optional<QueuedJob> Scheduler::TakeOne(Lane lane, double now) {
  const bool is_free = lane == Lane::kShort || HasFreePlace();
  const std::set<std::string> groups = RunningGroups();
  const auto shares =
      [this](const job::SharedPassCandidate& candidate)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return Shares(candidate); };
  std::optional<QueuedJob> job = queue_.Take(lane, now,
                                             {.is_free = is_free,
                                              .shares = shares,
                                              .running_groups = groups,
                                              .expected = expected_});
  if (!job.has_value()) return std::nullopt;
  expected_.erase(job->id);
  const void* place = nullptr;
  if (options_.shared_passes != nullptr && !job->sharing.key.empty()) {
    place = options_.shared_passes->Expect(job->sharing, /*may_begin=*/is_free);
    if (place == nullptr) {
      // A place was free a moment ago.
      queue_.PutBack(*std::move(job));
      return std::nullopt;
    }
  }
  Run& run = running_[job->id];
  if (place != nullptr) ExpectCandidates(job->sharing.key);
  run.sharing_key = job->sharing.key;
  run.place = place != nullptr ? place : &run;
  run.lane = lane;
  run.retries = retries_;
  run.job.set_id(job->id);
  return job;
}

std::set<std::string> Scheduler::RunningGroups() const {
  std::set<std::string> running_groups;
  for (const auto& [id, run] : running_) {
    if (!run.sharing_key.empty()) running_groups.insert(run.sharing_key);
  }
  return running_groups;
}

bool Scheduler::Shares(const job::SharedPassCandidate& job) const {
  if (options_.shared_passes == nullptr || job.key.empty()) return false;
  const void* const place = options_.shared_passes->GroupWithPlaceFor(job);
  return place != nullptr &&
         std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
           return entry.second.place == place;
         });
}

// Announces the queued candidates of a group, as many as it has places for: the
// group waits for them before it continues.
void Scheduler::ExpectCandidates(const std::string& sharing_key) {
  if (options_.shared_passes == nullptr || sharing_key.empty() || stopping_)
    return;
  for (const job::SharedPassCandidate& candidate :
       queue_.CandidatesOf(Lane::kTraining, sharing_key)) {
    if (options_.shared_passes->Expect(candidate, /*may_begin=*/false) !=
        nullptr) {
      expected_.insert(candidate.job);
    }
  }
}

void Scheduler::Forget(const std::string& id) {
  expected_.erase(id);
  if (options_.shared_passes != nullptr) options_.shared_passes->Forget(id);
  if (ahead_ != nullptr) ahead_->Forget(id);
}

// Whether another job of the training lane may run without sharing passes.
bool Scheduler::HasFreePlace() const {
  std::set<const void*> places;
  for (const auto& [id, run] : running_) {
    if (run.lane == Lane::kTraining) places.insert(run.place);
  }
  return places.size() < static_cast<size_t>(options_.max_running_jobs);
}

void Scheduler::LookAhead() {
  if (ahead_ == nullptr) return;
  std::optional<PlanAhead::Job> next;
  if (!stopping_ && !HasFreePlace()) {
    // Jobs that share passes with running jobs need no place.
    const QueuedJob* const first =
        queue_.FirstOfOthers(Lane::kTraining, RunningGroups());
    if (first != nullptr && first->makes_plan) {
      const std::string& sharing_key = first->sharing.key;
      next = {.id = first->id,
              .log_name = first->LogName(),
              .data = sharing_key.empty() ? first->id : sharing_key};
    }
  }
  ahead_->SetNext(next);
}

absl::Status Scheduler::RunJob(QueuedJob& job) {
  StateUpdate update;
  update.state = v1::PREPARING;
  if (!Persist(job, update)) return absl::OkStatus();
  LogInfo(job.LogName(), ": started");
  const absl::StatusOr<v1::Job> stored = store_.Get(job.id);
  if (stored.ok()) {
    absl::MutexLock lock(&mutex_);
    running_[job.id].job = *stored;
  }
  StoredEvents events(store_, job, [&](const v1::EpochReport& epoch) {
    EpochOfJob one;
    one.job.set_id(job.id);
    one.report = epoch;
    Report(absl::MakeSpan(&one, 1));
    return one.decision.status();
  });
  v1::JobReport report;
  const absl::Status status =
      stored.ok() ? Execute(*stored, events, StopTokenOf(job.id), report)
                  : stored.status();
  if (status.ok() && !events.is_running()) {
    update.state = v1::RUNNING;
    Persist(job, update);
  }
  // A wait after progress is a new wait.
  if (events.has_progressed()) {
    job.tries = 0;
    // The job's next epoch is in its checkpoint.
    job.sharing.join = false;
    job.sharing.epoch.reset();
  }
  {
    absl::MutexLock lock(&mutex_);
    job.sharing.key = running_[job.id].sharing_key;
  }
  update = Conclude(job, status, report);
  if (update.state == v1::FAILED || update.state == v1::WAITING) {
    LogWarning(job.LogName(), ": ", v1::JobState_Name(update.state), ": ",
               status.ToString());
  } else {
    LogInfo(job.LogName(), ": ", v1::JobState_Name(update.state));
  }
  if (update.state == v1::FAILED || update.state == v1::CANCELLED) {
    runner_.Discard(job.id);
  }
  Persist(job, update);
  return update.state == v1::WAITING ? status : absl::OkStatus();
}

std::stop_token Scheduler::StopTokenOf(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  return running_[id].stop.get_token();
}

bool Scheduler::Requeue(const QueuedJob& job, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  const Run& run = running_[job.id];
  if (run.cancelled_by_user) return false;
  const WaitCause cause = WaitCauseOf(status);
  if (!run.held) {
    queue_.AddWaiting(job, cause, BytesNeededBy(status),
                      clock_.SteadySeconds());
    if (run.retries != retries_) queue_.RetryNow(cause);
  }
  running_.erase(job.id);
  changed_.SignalAll();
  return true;
}

absl::Status Scheduler::Execute(const v1::Job& job, JobEvents& events,
                                std::stop_token stop, v1::JobReport& report) {
  return CatchExceptions([&]() -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(report, runner_.Run(job, events, std::move(stop)));
    return absl::OkStatus();
  });
}

StateUpdate Scheduler::Conclude(const QueuedJob& job,
                                const absl::Status& status,
                                const v1::JobReport& report) {
  absl::MutexLock lock(&mutex_);
  const bool cancelled = running_[job.id].cancelled_by_user;
  const bool held = running_[job.id].held;
  const WaitCause cause = WaitCauseOf(status);
  const bool may_wait = cause != WaitCause::kNone &&
                        queue_.MayWait(job, cause, clock_.SteadySeconds());
  StateUpdate update;
  if (status.ok()) {
    update.state = v1::SUCCEEDED;
    update.report = report;
  } else if ((cancelled && (absl::IsCancelled(status) || may_wait)) ||
             (absl::IsCancelled(status) &&
              running_[job.id].job.spec().has_rank())) {
    // A rank's job ends with its attempt.
    update.state = v1::CANCELLED;
  } else if ((absl::IsCancelled(status) && (stopping_ || held)) ||
             (may_wait && held)) {
    update.state = v1::QUEUED;
  } else if (may_wait) {
    update.state = v1::WAITING;
    update.waiting_reason = ReasonOf(status);
  } else {
    update.state = v1::FAILED;
    v1::JobError& error = update.error.emplace();
    error.set_code(static_cast<int>(status.code()));
    error.set_message(std::string(status.message()));
    if (cause != WaitCause::kNone) {
      absl::StrAppend(
          error.mutable_message(), "; it did not come back within ",
          absl::FormatDuration(absl::Seconds(options_.wait.limit_seconds)));
    }
  }
  return update;
}

// Writes a state, and retries until the scheduler stops; then the store's
// recovery at the next start finds the job. A transition that is not allowed is
// not retried.
bool Scheduler::Persist(const QueuedJob& job, const StateUpdate& update) {
  while (true) {
    const absl::Status status = store_.ChangeState(job.id, update);
    if (status.ok()) return true;
    LogError(job.LogName(), ": cannot become ", v1::JobState_Name(update.state),
             ": ", status.ToString());
    if (absl::IsFailedPrecondition(status) || absl::IsNotFound(status)) {
      return false;
    }
    absl::MutexLock lock(&mutex_);
    if (!stopping_) changed_.WaitWithTimeout(&mutex_, options_.retry_interval);
    if (stopping_) return false;
  }
}

}  // namespace hearth::server
