// A worker, step by step:
//   1. waits for a queued job, takes it from the queue and enters it into
//      `running_`, under one lock, so that Cancel finds it in either;
//   2. moves it to PREPARING and runs it; the runner moves it to RUNNING;
//   3. decides its next state, by why it ended and who asked for that;
//   4. writes that state, again and again while the disk does not take it;
//   5. removes it from `running_`.
// So a job that is neither queued nor running has ended in the store.
#include "server/jobs/scheduler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"

namespace hearth::server {
namespace {

// Passes a job's events to the store. Losing one (a full disk) does not stop
// the job, unless it is the report of an epoch, which is kept nowhere else.
class StoredEvents final : public JobEvents {
 public:
  StoredEvents(JobStore& store, std::string id)
      : store_(store), id_(std::move(id)) {}

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

  absl::Status OnEpoch(const v1::EpochReport& epoch) override {
    return store_.AppendEpoch(id_, epoch);
  }

  // The count grows only when a daemon starts: once a run is enough.
  void OnDurable() override {
    if (has_progressed_) return;
    const absl::Status status = store_.ForgetInterruptions(id_);
    has_progressed_ = status.ok();
    Warn(status);
  }

  // Whether the store knows that the job is RUNNING.
  bool is_running() const { return is_running_; }

 private:
  void Warn(const absl::Status& status) {
    if (!status.ok()) {
      spdlog::warn("{}: an event is lost: {}", id_, status.ToString());
    }
  }

  JobStore& store_;
  const std::string id_;
  bool is_running_ = false;
  // Whether the store knows that work of this run is durable.
  bool has_progressed_ = false;
};

}  // namespace

Scheduler::Scheduler(JobStore& store, JobRunner& runner, const Clock& clock,
                     SchedulerOptions options)
    : store_(store), runner_(runner), clock_(clock), options_(options) {}

Scheduler::~Scheduler() {
  static_cast<void>(Stop(absl::InfiniteDuration()));
  workers_.clear();
}

absl::Status Scheduler::Load() {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, store_.Unended());
  for (const v1::Job& job : jobs) Enqueue(job.id());
  return absl::OkStatus();
}

void Scheduler::Start() {
  for (int i = 0; i < options_.max_running_jobs; ++i) {
    workers_.emplace_back([this] { Work(); });
  }
}

void Scheduler::Enqueue(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  // A job that has just ended may be resumed before its worker lets it go.
  while (running_.contains(id)) changed_.Wait(&mutex_);
  queue_.push_back(id);
  changed_.SignalAll();
}

absl::Status Scheduler::Cancel(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto queued = std::find(queue_.begin(), queue_.end(), id);
  if (queued != queue_.end()) {
    StateUpdate update;
    update.state = v1::CANCELLED;
    HEARTH_RETURN_IF_ERROR(store_.ChangeState(id, update));
    queue_.erase(queued);
    return absl::OkStatus();
  }
  const auto running = running_.find(id);
  if (running == running_.end()) return store_.Get(id).status();
  HEARTH_RETURN_IF_ERROR(store_.RequestCancel(id));
  running->second.cancelled_by_user = true;
  running->second.stop.request_stop();
  return absl::OkStatus();
}

absl::Status Scheduler::Stop(absl::Duration patience) {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  changed_.SignalAll();
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

void Scheduler::Work() {
  while (true) {
    std::string id;
    std::stop_token stop;
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_ && queue_.empty()) changed_.Wait(&mutex_);
      if (stopping_) return;
      id = std::move(queue_.front());
      queue_.pop_front();
      stop = running_[id].stop.get_token();
    }
    RunJob(id, stop);
    absl::MutexLock lock(&mutex_);
    running_.erase(id);
    changed_.SignalAll();
  }
}

void Scheduler::RunJob(const std::string& id, std::stop_token stop) {
  StateUpdate update;
  update.state = v1::PREPARING;
  if (!Persist(id, update)) return;
  spdlog::info("{}: started", id);
  StoredEvents events(store_, id);
  v1::JobReport report;
  const absl::Status status = Execute(id, events, std::move(stop), report);
  if (status.ok() && !events.is_running()) {
    update.state = v1::RUNNING;
    Persist(id, update);
  }
  update = Conclude(id, status, report);
  if (update.state == v1::FAILED) {
    spdlog::warn("{}: FAILED: {}", id, status.ToString());
  } else {
    spdlog::info("{}: {}", id, v1::JobState_Name(update.state));
  }
  Persist(id, update);
}

absl::Status Scheduler::Execute(const std::string& id, JobEvents& events,
                                std::stop_token stop, v1::JobReport& report) {
  try {
    HEARTH_ASSIGN_OR_RETURN(const v1::Job job, store_.Get(id));
    HEARTH_ASSIGN_OR_RETURN(report, runner_.Run(job, events, std::move(stop)));
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("an exception of unknown type");
  }
}

StateUpdate Scheduler::Conclude(const std::string& id,
                                const absl::Status& status,
                                const v1::JobReport& report) {
  absl::MutexLock lock(&mutex_);
  StateUpdate update;
  if (status.ok()) {
    update.state = v1::SUCCEEDED;
    update.report = report;
  } else if (absl::IsCancelled(status) && running_[id].cancelled_by_user) {
    update.state = v1::CANCELLED;
  } else if (absl::IsCancelled(status) && stopping_) {
    update.state = v1::QUEUED;
  } else {
    update.state = v1::FAILED;
    v1::JobError& error = update.error.emplace();
    error.set_code(static_cast<int>(status.code()));
    error.set_message(std::string(status.message()));
  }
  return update;
}

// Writes a state, retrying until the scheduler stops: then the store's recovery
// at the next start finds the job. A step that is not allowed is not retried.
bool Scheduler::Persist(const std::string& id, const StateUpdate& update) {
  while (true) {
    const absl::Status status = store_.ChangeState(id, update);
    if (status.ok()) return true;
    spdlog::error("{}: cannot become {}: {}", id,
                  v1::JobState_Name(update.state), status.ToString());
    if (absl::IsFailedPrecondition(status) || absl::IsNotFound(status)) {
      return false;
    }
    absl::MutexLock lock(&mutex_);
    if (!stopping_) changed_.WaitWithTimeout(&mutex_, options_.retry_interval);
    if (stopping_) return false;
  }
}

}  // namespace hearth::server
