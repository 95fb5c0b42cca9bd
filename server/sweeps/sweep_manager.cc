// A step in a sweep's life, from any of its events:
//   1. under the lock, the search takes the event and decides (LiveSweep);
//   2. event, decisions and their effects on the rows of jobs are stored in one
//      transaction. Where that fails, the sweep is rebuilt from what is stored;
//   3. jobs that have reported an epoch, if that was the event, learn their own
//      fate at once, before they go on; all other jobs are told by the thread
//      of the manager, one after another, without the lock: the scheduler may
//      wait there for a job that waits for the lock.
// Ends of jobs are events, too; they wait for the same thread. What it could
// not do it tries again.
//
// After a kill -9, the rows say which jobs are queued, held or to be cancelled,
// and the scheduler follows them; jobs that ended unheard of are found by
// comparing the rows with the search.
#include "server/sweeps/sweep_manager.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "engine/sweep/search.h"
#include "engine/sweep/space.h"
#include "server/jobs/name_claims.h"
#include "server/mapping/field_violations.h"
#include "server/mapping/sweep_mapping.h"
#include "server/storage/job_state.h"
#include "server/sweeps/live_sweep.h"

namespace hearth::server {
namespace {

constexpr absl::Duration kRetryInterval = absl::Seconds(1);

constexpr v1::TrialState kTrialStates[] = {
    v1::TRIAL_PENDING,   v1::TRIAL_RUNNING, v1::TRIAL_WAITING,
    v1::TRIAL_SUCCEEDED, v1::TRIAL_FAILED,  v1::TRIAL_STOPPED};

// What jobs are to hear of.
struct Message {
  enum class Kind { kRelease, kHold, kCancel, kHasEnded };
  Kind kind = Kind::kRelease;
  // Several only to be released.
  std::vector<std::string> jobs;
};

v1::SweepEvent StateEvent(v1::SweepState state) {
  v1::SweepEvent event;
  event.mutable_state()->set_state(state);
  return event;
}

absl::Status EndedError(const v1::Sweep& sweep) {
  return absl::FailedPreconditionError(absl::StrCat(sweep.id(), " has ended"));
}

class SweepManagerImpl final : public SweepManager {
 public:
  explicit SweepManagerImpl(const SweepManagerParts& parts) : parts_(parts) {}

  ~SweepManagerImpl() override {
    parts_.scheduler.SetTrialObserver(nullptr);
    {
      absl::MutexLock lock(&mutex_);
      exiting_ = true;
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Begin() {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Sweep> sweeps,
                            parts_.sweeps.List());
    {
      absl::MutexLock lock(&mutex_);
      for (const v1::Sweep& sweep : sweeps) {
        if (HasEnded(sweep.state())) {
          Count(sweep, 1);
          continue;
        }
        const absl::Status status = CatchUp(sweep.id());
        if (!status.ok()) {
          spdlog::error("{} does not go on: {}", sweep.id(), status.ToString());
        }
      }
    }
    parts_.scheduler.SetTrialObserver(this);
    thread_ = std::jthread([this] { Work(); });
    for (const v1::TrialState state : kTrialStates) {
      const std::string name = v1::TrialState_Name(state);
      gauges_[state] = parts_.registry.NewGauge(
          "hearth_sweep_trials", "Trials of sweeps in each state.",
          {{"state",
            absl::AsciiStrToLower(absl::StripPrefix(name, "TRIAL_"))}});
    }
    hook_ = parts_.registry.NewCollectHook([this] { UpdateGauges(); });
    return absl::OkStatus();
  }

  absl::StatusOr<v1::Sweep> Submit(const v1::SubmitSweepRequest& request,
                                   const std::string& owner) override {
    HEARTH_RETURN_IF_ERROR(
        Admission::CheckRequest(request.request_id(), request.priority()));
    v1::Sweep summary;
    *summary.mutable_spec() = request.spec();
    summary.set_priority(request.priority());
    summary.set_owner(owner);
    HEARTH_RETURN_IF_ERROR(
        FillAndValidate(parts_.admission.limits(), *summary.mutable_spec()));
    const NameClaims::Claim same =
        parts_.admission.AwaitRequest(request.request_id());
    HEARTH_ASSIGN_OR_RETURN(
        const std::optional<v1::Sweep> existing,
        parts_.sweeps.FindRequest(request.request_id(), summary.spec()));
    if (existing.has_value()) return Get(existing->id());
    // The dataset stays until the first jobs need it.
    v1::JobSpec job;
    *job.mutable_train() = summary.spec().train();
    HEARTH_ASSIGN_OR_RETURN(const NameClaims::Claim claim,
                            parts_.admission.Admit(job));
    HEARTH_RETURN_IF_ERROR(CheckMetric(summary.spec()));
    auto sweep = std::make_unique<LiveSweep>(summary);
    absl::MutexLock lock(&mutex_);
    SweepStep step =
        sweep->Apply(parts_.admission.limits(), StateEvent(v1::SWEEP_RUNNING));
    HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                            parts_.sweeps.Add(request.request_id(), step));
    const std::string id = step.sweep.id();
    sweep->Stored(step, ids);
    LiveSweep& added = *(live_[id] = std::move(sweep));
    TellJobs(step, ids, {});
    return added.ToProto();
  }

  absl::StatusOr<v1::Sweep> Get(const std::string& id) override {
    {
      absl::MutexLock lock(&mutex_);
      const auto found = live_.find(id);
      if (found != live_.end()) return found->second->ToProto();
    }
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<LiveSweep> sweep,
                            LiveSweep::Load(parts_.sweeps, id));
    return sweep->ToProto();
  }

  absl::StatusOr<v1::Sweep> Pause(const std::string& id) override {
    return ChangeState(id, v1::SWEEP_PAUSED);
  }

  absl::StatusOr<v1::Sweep> Resume(const std::string& id) override {
    return ChangeState(id, v1::SWEEP_RUNNING);
  }

  absl::StatusOr<v1::Sweep> Stop(const std::string& id) override {
    absl::StatusOr<v1::Sweep> stopped = ChangeState(id, v1::SWEEP_STOPPED);
    if (absl::IsFailedPrecondition(stopped.status())) return Get(id);
    return stopped;
  }

  absl::StatusOr<v1::Sweep> AddTrial(
      const v1::AddTrialRequest& request) override {
    absl::MutexLock lock(&mutex_);
    HEARTH_ASSIGN_OR_RETURN(LiveSweep * sweep, FindLive(request.id()));
    HEARTH_ASSIGN_OR_RETURN(
        const sweep::Point point,
        ToPoint(parts_.admission.limits(), sweep->summary().spec(), request));
    const int64_t trials = sweep->search().trials();
    if (request.number() > 0 && request.number() <= trials &&
        sweep->point(int64_t{request.number()} - 1) == point) {
      return sweep->ToProto();
    }
    FieldViolations violations;
    if (request.number() > 0 && request.number() != trials + 1) {
      violations.Add(
          "number", absl::StrCat("must be ", trials + 1,
                                 ", the next trial's, not ", request.number()));
    }
    if (trials >= kMaxTrials) {
      violations.Add("parameters",
                     absl::StrCat("make more than ", kMaxTrials, " trials"));
    }
    HEARTH_RETURN_IF_ERROR(violations.ToStatus());
    if (!sweep->search().CanAddTrials()) {
      return absl::FailedPreconditionError(
          absl::StrCat(request.id(),
                       " takes no trials: its algorithm compares those that "
                       "begin together"));
    }
    v1::SweepEvent event;
    event.mutable_added()->set_trial(static_cast<uint32_t>(trials + 1));
    *event.mutable_added()->mutable_parameters() = request.parameters();
    return Perform(request.id(), event);
  }

  absl::StatusOr<v1::Sweep> StopTrial(
      const v1::StopTrialRequest& request) override {
    absl::MutexLock lock(&mutex_);
    HEARTH_ASSIGN_OR_RETURN(LiveSweep * sweep, FindLive(request.id()));
    const int64_t trial = int64_t{request.trial()} - 1;
    if (trial < 0 || trial >= sweep->search().trials()) {
      return absl::NotFoundError(absl::StrCat(request.id(), " has no trial ",
                                              request.trial(), ", only ",
                                              sweep->search().trials()));
    }
    if (sweep::HasEnded(sweep->search().StateOf(trial))) {
      return sweep->ToProto();
    }
    v1::SweepEvent event;
    event.mutable_stop()->set_trial(request.trial());
    return Perform(request.id(), event);
  }

  absl::Status Delete(const v1::DeleteSweepRequest& request) override {
    return parts_.admission.DeleteOnce(request.request_id(),
                                       absl::StrCat("sweep ", request.id()),
                                       [&] { return Remove(request.id()); });
  }

  std::vector<std::string> OnEpochs(
      absl::Span<EpochOfJob* const> epochs) override {
    absl::MutexLock lock(&mutex_);
    std::vector<std::string> begun;
    std::map<std::string, std::vector<EpochOfJob*>> by_sweep;
    for (EpochOfJob* epoch : epochs) {
      if (FindOwner(epoch->job.id()) != nullptr) {
        by_sweep[epoch->job.sweep()].push_back(epoch);
        continue;
      }
      // Its sweep, or its trial, has ended, and somebody resumed it.
      const absl::Status status =
          parts_.store.AppendEpoch(epoch->job.id(), epoch->report);
      if (!status.ok()) epoch->verdict = status;
    }
    for (auto& [sweep, together] : by_sweep) {
      const absl::Status status = Record(sweep, together, begun);
      for (EpochOfJob* epoch : together) {
        if (status.ok()) {
          epoch->verdict = VerdictOf(epoch->job);
        } else {
          epoch->verdict = status;
        }
      }
    }
    return begun;
  }

  void OnEnded(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    if (!owners_.contains(id)) return;
    Tell(Message::Kind::kHasEnded, id);
  }

 private:
  struct Owner {
    std::string sweep;
    int64_t trial = 0;
    int64_t replica = 0;
  };

  // INVALID_ARGUMENT if there is nothing to judge trials by.
  absl::Status CheckMetric(const v1::SweepSpec& spec) const {
    const std::string& name = spec.train().data().dataset();
    HEARTH_ASSIGN_OR_RETURN(const v1::Dataset dataset,
                            parts_.datasets.Get(name));
    const bool validates = std::any_of(
        dataset.node_types().begin(), dataset.node_types().end(),
        [](const v1::NodeType& type) { return type.num_valid() > 0; });
    FieldViolations violations;
    if (!spec.by_loss() && !validates) {
      violations.Add("by_loss", absl::StrCat("must be loss: dataset \"", name,
                                             "\" has no validation nodes"));
    }
    return violations.ToStatus();
  }

  absl::StatusOr<LiveSweep*> FindLive(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = live_.find(id);
    if (found != live_.end()) return found->second.get();
    HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, parts_.sweeps.Get(id));
    if (HasEnded(sweep.state())) return EndedError(sweep);
    return absl::DataLossError(
        absl::StrCat(id, " could not be rebuilt; hearthd's log says why"));
  }

  LiveSweep* FindOwner(const std::string& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto owner = owners_.find(job);
    if (owner == owners_.end()) return nullptr;
    const auto sweep = live_.find(owner->second.sweep);
    return sweep == live_.end() ? nullptr : sweep->second.get();
  }

  // Records the epochs that trials of a sweep have ended together before it
  // judges any of them. Adds the jobs that begin because of that to `begun`.
  absl::Status Record(const std::string& id, std::vector<EpochOfJob*>& epochs,
                      std::vector<std::string>& begun)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // In an order that does not depend on who came first.
    std::sort(epochs.begin(), epochs.end(),
              [](const EpochOfJob* a, const EpochOfJob* b) {
                return std::pair(a->job.trial(), a->job.replica()) <
                       std::pair(b->job.trial(), b->job.replica());
              });
    const LiveSweep& sweep = *live_.at(id);
    v1::SweepEvent event;
    std::vector<SweepStep::JobEpoch> reports;
    for (const EpochOfJob* epoch : epochs) {
      const v1::EpochReport& report = epoch->report;
      const int64_t trial = int64_t{epoch->job.trial()} - 1;
      if (report.epoch() <=
          sweep.search().EpochsOf(trial, epoch->job.replica())) {
        continue;
      }
      event.mutable_results()->set_metric(
          MetricOf(sweep.summary().spec(), report));
      v1::EpochResult& result = *event.mutable_results()->add_results();
      result.set_trial(epoch->job.trial());
      result.set_replica(epoch->job.replica());
      result.set_epoch(report.epoch());
      if (report.has_valid_metric()) result.set_metric(report.valid_metric());
      result.set_loss(report.loss());
      result.set_job(epoch->job.id());
      reports.push_back({.job = epoch->job.id(), .report = report});
    }
    if (reports.empty()) return absl::OkStatus();
    return Perform(id, event, std::move(reports), &begun).status();
  }

  // What was decided of a job last.
  EpochVerdict VerdictOf(const v1::Job& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto verdict = verdicts_.find(job.id());
    return verdict == verdicts_.end() ? EpochVerdict::kGoOn : verdict->second;
  }

  absl::StatusOr<v1::Sweep> ChangeState(const std::string& id,
                                        v1::SweepState state) {
    absl::MutexLock lock(&mutex_);
    HEARTH_ASSIGN_OR_RETURN(LiveSweep * sweep, FindLive(id));
    if (sweep->summary().state() == state) return sweep->ToProto();
    return Perform(id, StateEvent(state));
  }

  // One step; gives the sweep afterwards, and adds the ids of new jobs to
  // `begun`.
  absl::StatusOr<v1::Sweep> Perform(
      const std::string& id, const v1::SweepEvent& event,
      std::vector<SweepStep::JobEpoch> epochs = {},
      std::vector<std::string>* begun = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    LiveSweep& sweep = *live_.at(id);
    std::set<std::string> reporters;
    for (const SweepStep::JobEpoch& epoch : epochs) reporters.insert(epoch.job);
    const absl::Status status =
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) -> absl::Status {
      SweepStep step = sweep.Apply(parts_.admission.limits(), event);
      step.epochs = std::move(epochs);
      HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                              parts_.sweeps.Commit(step));
      sweep.Stored(step, ids);
      TellJobs(step, ids, reporters);
      if (begun != nullptr) begun->insert(begun->end(), ids.begin(), ids.end());
      return absl::OkStatus();
    }();
    if (!status.ok()) {
      const absl::Status rebuilt = CatchUp(id);
      if (!rebuilt.ok()) {
        spdlog::error("{} does not go on: {}", id, rebuilt.ToString());
        live_.erase(id);
      }
      return status;
    }
    // Callers from jobs do not look at it.
    v1::Sweep proto = reporters.empty() ? sweep.ToProto() : sweep.summary();
    if (HasEnded(proto.state())) {
      Count(proto, 1);
      live_.erase(id);
    }
    return proto;
  }

  // Notes the fates of jobs, and has them told, all but those of the reporters.
  void TellJobs(const SweepStep& step, const std::vector<std::string>& ids,
                const std::set<std::string>& reporters)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (size_t i = 0; i < ids.size(); ++i) {
      owners_[ids[i]] = {.sweep = step.sweep.id(),
                         .trial = int64_t{step.new_jobs[i].trial} - 1,
                         .replica = step.new_jobs[i].replica};
      Tell(Message::Kind::kRelease, ids[i]);
    }
    for (const std::string& id : step.held) {
      verdicts_[id] = EpochVerdict::kHold;
      if (!reporters.contains(id)) Tell(Message::Kind::kHold, id);
    }
    for (const std::string& id : step.released) {
      verdicts_.erase(id);
      Tell(Message::Kind::kRelease, id);
    }
    for (const std::string& id : step.cancelled) {
      verdicts_[id] = EpochVerdict::kCancel;
      if (!reporters.contains(id)) Tell(Message::Kind::kCancel, id);
    }
  }

  void Tell(Message::Kind kind, const std::string& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Those that begin together share their passes from the first on.
    if (kind == Message::Kind::kRelease && !messages_.empty() &&
        messages_.back().kind == kind) {
      messages_.back().jobs.push_back(job);
    } else {
      messages_.push_back({.kind = kind, .jobs = {job}});
    }
    changed_.SignalAll();
  }

  // Rebuilds a sweep from what is stored, and hears of the jobs that have ended
  // without it.
  absl::Status CatchUp(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<LiveSweep> sweep,
                            LiveSweep::Load(parts_.sweeps, id));
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                            parts_.sweeps.ReadJobs(id));
    for (const v1::Job& job : jobs) {
      const int64_t trial = int64_t{job.trial()} - 1;
      if (sweep->search().HasEnded(trial, job.replica())) continue;
      owners_[job.id()] = {
          .sweep = id, .trial = trial, .replica = job.replica()};
      verdicts_.erase(job.id());
      const auto action = sweep->search().ActionOf(trial, job.replica());
      if (action == sweep::Action::kHold) {
        verdicts_[job.id()] = EpochVerdict::kHold;
      } else if (action == sweep::Action::kStop) {
        verdicts_[job.id()] = EpochVerdict::kCancel;
      }
      if (HasEnded(job.state())) Tell(Message::Kind::kHasEnded, job.id());
    }
    live_[id] = std::move(sweep);
    return absl::OkStatus();
  }

  // The thread that tells jobs.
  void Work() ABSL_LOCKS_EXCLUDED(mutex_) {
    while (true) {
      Message message;
      {
        absl::MutexLock lock(&mutex_);
        while (!exiting_ && messages_.empty()) changed_.Wait(&mutex_);
        if (exiting_) return;
        message = std::move(messages_.front());
        messages_.pop_front();
      }
      while (true) {
        const absl::Status status = Deliver(message);
        // Of a job that is gone there is nothing more to say.
        if (status.ok() || absl::IsNotFound(status) ||
            absl::IsFailedPrecondition(status)) {
          break;
        }
        spdlog::warn("{}: {}", absl::StrJoin(message.jobs, ", "),
                     status.ToString());
        absl::MutexLock lock(&mutex_);
        if (!exiting_) changed_.WaitWithTimeout(&mutex_, kRetryInterval);
        if (exiting_) return;
      }
    }
  }

  absl::Status Deliver(const Message& message) ABSL_LOCKS_EXCLUDED(mutex_) {
    switch (message.kind) {
      case Message::Kind::kRelease:
        return parts_.scheduler.Release(message.jobs);
      case Message::Kind::kHold:
        parts_.scheduler.Hold(message.jobs.front());
        return absl::OkStatus();
      case Message::Kind::kCancel:
        return parts_.scheduler.Cancel(message.jobs.front());
      case Message::Kind::kHasEnded:
        return HearEnd(message.jobs.front());
    }
    return absl::OkStatus();
  }

  absl::Status HearEnd(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_) {
    HEARTH_ASSIGN_OR_RETURN(const v1::Job job, parts_.store.Get(id));
    if (!HasEnded(job.state())) return absl::OkStatus();
    absl::MutexLock lock(&mutex_);
    const auto owner = owners_.find(id);
    if (owner == owners_.end()) return absl::OkStatus();
    const Owner of = owner->second;
    const auto sweep = live_.find(of.sweep);
    if (sweep != live_.end() &&
        !sweep::HasEnded(sweep->second->search().StateOf(of.trial))) {
      v1::SweepEvent event;
      v1::ReplicaEnd& end = *event.mutable_ended();
      end.set_trial(static_cast<uint32_t>(of.trial + 1));
      end.set_replica(static_cast<uint32_t>(of.replica));
      end.set_state(job.state());
      if (job.state() == v1::FAILED) {
        end.set_reason(job.error().message());
      } else if (job.state() == v1::CANCELLED) {
        end.set_reason(absl::StrCat(id, " was cancelled"));
      }
      HEARTH_RETURN_IF_ERROR(Perform(of.sweep, event).status());
    }
    owners_.erase(id);
    verdicts_.erase(id);
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_) {
    HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep, parts_.sweeps.Get(id));
    if (!HasEnded(sweep.state())) {
      return absl::FailedPreconditionError(
          absl::StrCat(id, " has not ended; stop it first"));
    }
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                            parts_.sweeps.ReadJobs(id));
    for (const v1::Job& job : jobs) {
      if (HasEnded(job.state())) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(job.id(), " of ", id, " has not ended"));
    }
    for (const v1::Job& job : jobs) {
      v1::DeleteJobRequest request;
      request.set_id(job.id());
      const absl::Status status = parts_.admission.DeleteJob(request);
      if (!status.ok() && !absl::IsNotFound(status)) return status;
    }
    HEARTH_RETURN_IF_ERROR(parts_.sweeps.Delete(id));
    absl::MutexLock lock(&mutex_);
    Count(sweep, -1);
    return absl::OkStatus();
  }

  // Adds the trials of a sweep that has ended, `times` times.
  void Count(const v1::Sweep& sweep, int64_t times)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const v1::TrialCount& count : sweep.counts()) {
      ended_counts_[count.state()] += times * int64_t{count.trials()};
    }
  }

  void UpdateGauges() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    std::map<int, int64_t> counts = ended_counts_;
    for (const auto& [id, sweep] : live_) {
      for (const v1::TrialCount& count : sweep->summary().counts()) {
        counts[count.state()] += count.trials();
      }
    }
    for (const auto& [state, gauge] : gauges_) {
      gauge->Set(static_cast<double>(counts[state]));
    }
  }

  const SweepManagerParts parts_;
  absl::Mutex mutex_;
  // Signalled when there is a message, and when the manager goes.
  absl::CondVar changed_;
  // Sweeps that have not ended.
  std::map<std::string, std::unique_ptr<LiveSweep>> live_
      ABSL_GUARDED_BY(mutex_);
  // Of jobs whose end has not been heard of.
  std::map<std::string, Owner> owners_ ABSL_GUARDED_BY(mutex_);
  // Of those that shall not go on.
  std::map<std::string, EpochVerdict> verdicts_ ABSL_GUARDED_BY(mutex_);
  // Without the one that is being told.
  std::deque<Message> messages_ ABSL_GUARDED_BY(mutex_);
  // Trials of sweeps that have ended, by state.
  std::map<int, int64_t> ended_counts_ ABSL_GUARDED_BY(mutex_);
  bool exiting_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
  std::map<int, std::unique_ptr<metrics::Gauge>> gauges_;
  // Last: goes first, so that nothing is updated that is gone.
  std::unique_ptr<metrics::CollectHook> hook_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SweepManager>> SweepManager::Make(
    const SweepManagerParts& parts) {
  auto manager = std::make_unique<SweepManagerImpl>(parts);
  HEARTH_RETURN_IF_ERROR(manager->Begin());
  return manager;
}

}  // namespace hearth::server
