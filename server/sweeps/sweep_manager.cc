// A step in a sweep's life, from any of its events:
//   1. Under the lock, the search takes the event and decides (LiveSweep).
//   2. Event, decisions and their effects on the rows of jobs are stored in one
//      transaction. If that fails, the sweep is rebuilt from the store.
//   3. Jobs that have reported an epoch, if that was the event, get the
//   decision
//      about them at once, before they continue. The messenger's thread tells
//      all other jobs, one after another, without the lock: the scheduler may
//      wait there for a job that waits for the lock.
// Ends of jobs are events, too, and are handled by the same thread.
//
// After a kill -9, the rows say which jobs are queued, held or to be cancelled,
// and the scheduler follows them; jobs whose ends the sweep has missed are
// found by comparing the rows with the search.
#include "server/sweeps/sweep_manager.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/metrics/registry.h"
#include "engine/plan/plan_store.h"
#include "engine/sweep/search.h"
#include "engine/sweep/space.h"
#include "server/jobs/admission.h"
#include "server/jobs/scheduler.h"
#include "server/log.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/sweep_mapping.h"
#include "server/storage/dataset_catalog.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/sweeps/live_sweep.h"
#include "server/sweeps/sweep_jobs.h"

namespace hearth::server {
namespace {

// Reason for which a trial does not begin.
constexpr char kDraining[] = "hearthd drains: no trial begins";

constexpr v1::TrialState kTrialStates[] = {
    v1::TRIAL_PENDING,   v1::TRIAL_RUNNING, v1::TRIAL_WAITING,
    v1::TRIAL_SUCCEEDED, v1::TRIAL_FAILED,  v1::TRIAL_STOPPED};

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
  explicit SweepManagerImpl(const SweepManagerDependencies& dependencies)
      : dependencies_(dependencies),
        messenger_(
            [this](const JobMessage& message) { return Deliver(message); }) {}

  ~SweepManagerImpl() override {
    dependencies_.scheduler.SetTrialObserver(nullptr);
    messenger_.Stop();
  }

  absl::Status Begin() {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Sweep> sweeps,
                            dependencies_.sweeps.List());
    {
      absl::MutexLock lock(&mutex_);
      for (const v1::Sweep& sweep : sweeps) {
        if (HasEnded(sweep.state())) {
          Count(sweep, 1);
          continue;
        }
        const absl::Status status = CatchUp(sweep.id());
        if (!status.ok()) {
          LogError(sweep.id(), " does not go on: ", status.ToString());
        }
      }
    }
    dependencies_.scheduler.SetTrialObserver(this);
    messenger_.Start();
    for (const v1::TrialState state : kTrialStates) {
      const std::string name = v1::TrialState_Name(state);
      gauges_[state] = dependencies_.registry.NewGauge(
          "hearth_sweep_trials", "Trials of sweeps in each state.",
          {{"state",
            absl::AsciiStrToLower(absl::StripPrefix(name, "TRIAL_"))}});
    }
    hook_ = dependencies_.registry.NewCollectHook([this] { UpdateGauges(); });
    return absl::OkStatus();
  }

  absl::StatusOr<v1::Sweep> Submit(const v1::SubmitSweepRequest& request,
                                   const JobOrigin& origin) override {
    HEARTH_RETURN_IF_ERROR(
        Admission::CheckRequest(request.request_id(), request.priority()));
    HEARTH_RETURN_IF_ERROR(
        Admission::CheckSize(request.spec(), Admission::kMaxSweepSpecBytes));
    v1::Sweep summary;
    *summary.mutable_spec() = request.spec();
    summary.set_priority(request.priority());
    summary.set_owner(origin.owner);
    summary.set_trace_id(origin.trace_id);
    HEARTH_RETURN_IF_ERROR(FillAndValidate(dependencies_.admission.limits(),
                                           *summary.mutable_spec()));
    const NameClaims::Claim same =
        dependencies_.admission.AwaitRequest(request.request_id());
    HEARTH_ASSIGN_OR_RETURN(
        const std::optional<v1::Sweep> existing,
        dependencies_.sweeps.FindRequest(request.request_id(), summary.spec()));
    if (existing.has_value()) return Get(existing->id());
    HEARTH_RETURN_IF_ERROR(dependencies_.store.CheckRoom(origin.owner));
    // A claim: the dataset stays until the first jobs need it.
    v1::JobSpec job;
    *job.mutable_train() = summary.spec().train();
    HEARTH_ASSIGN_OR_RETURN(const NameClaims::Claim claim,
                            dependencies_.admission.Admit(job));
    HEARTH_RETURN_IF_ERROR(CheckMetric(summary.spec()));
    auto sweep = std::make_unique<LiveSweep>(summary);
    v1::SweepEvent begin = StateEvent(v1::SWEEP_RUNNING);
    HEARTH_ASSIGN_OR_RETURN(const std::vector<uint32_t> order,
                            FindDataOrder(summary.spec()));
    begin.mutable_state()->mutable_data_order()->Assign(order.begin(),
                                                        order.end());
    NoteEqualTrials(summary.spec(), *begin.mutable_state());
    absl::MutexLock lock(&mutex_);
    SweepStep step = sweep->Apply(dependencies_.admission.limits(), begin);
    HEARTH_ASSIGN_OR_RETURN(
        const std::vector<std::string> ids,
        dependencies_.sweeps.Add(request.request_id(), step));
    const std::string id = step.sweep.id();
    sweep->Stored(step, ids);
    LiveSweep& added = *(live_[id] = std::move(sweep));
    TellJobs(step, ids, {});
    return added.ToProto();
  }

  absl::StatusOr<v1::Sweep> Get(const std::string& id) override {
    std::optional<v1::Sweep> sweep;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = live_.find(id);
      if (found != live_.end()) sweep = found->second->ToProto();
    }
    if (sweep.has_value()) {
      TellWhatWaits(*sweep);
      return *std::move(sweep);
    }
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<LiveSweep> loaded,
                            LiveSweep::Load(dependencies_.sweeps, id));
    return loaded->ToProto();
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
    HEARTH_ASSIGN_OR_RETURN(const sweep::Point point,
                            ToPoint(dependencies_.admission.limits(),
                                    sweep->summary().spec(), request));
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
    if (sweep->search().done()) {
      return absl::FailedPreconditionError(absl::StrCat(
          request.id(), " takes no trials: all of its trials have ended"));
    }
    if (!sweep->search().CanAddTrials()) {
      return absl::FailedPreconditionError(
          absl::StrCat(request.id(),
                       " takes no trials: its algorithm compares trials that "
                       "begin together"));
    }
    v1::SweepEvent event;
    event.mutable_added()->set_trial(static_cast<uint32_t>(trials + 1));
    *event.mutable_added()->mutable_parameters() = request.parameters();
    if (const std::optional<int64_t> original =
            sweep->OriginalOf(dependencies_.admission.limits(), point)) {
      event.mutable_added()->set_same_as(static_cast<uint32_t>(*original + 1));
    }
    return Perform(request.id(), event);
  }

  absl::StatusOr<v1::Sweep> StopTrial(
      const v1::StopTrialRequest& request) override {
    absl::MutexLock lock(&mutex_);
    HEARTH_ASSIGN_OR_RETURN(LiveSweep * sweep, FindLive(request.id()));
    HEARTH_ASSIGN_OR_RETURN(const int64_t trial,
                            TrialIn(*sweep, request.trial()));
    if (sweep::HasEnded(sweep->search().StateOf(trial))) {
      return sweep->ToProto();
    }
    v1::SweepEvent event;
    event.mutable_stop()->set_trial(request.trial());
    return Perform(request.id(), event);
  }

  absl::Status ContinueTrial(const v1::ContinueTrialRequest& request) override {
    absl::MutexLock lock(&mutex_);
    const absl::StatusOr<LiveSweep*> sweep = FindLive(request.id());
    if (absl::IsFailedPrecondition(sweep.status())) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(sweep.status());
    HEARTH_ASSIGN_OR_RETURN(const int64_t trial,
                            TrialIn(**sweep, request.trial()));
    int64_t& continued = continued_[{request.id(), trial}];
    continued = std::max<int64_t>(continued, request.epoch());
    decided_.SignalAll();
    return absl::OkStatus();
  }

  absl::Status Delete(const v1::DeleteSweepRequest& request) override {
    return dependencies_.admission.DeleteOnce(
        request.request_id(), absl::StrCat("sweep ", request.id()),
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
      // The job's sweep or trial has ended, and a user resumed the job.
      const absl::Status status =
          dependencies_.store.AppendEpoch(epoch->job.id(), epoch->report);
      if (!status.ok()) epoch->decision = status;
    }
    for (auto& [sweep, together] : by_sweep) {
      const absl::Status status = Record(sweep, together, begun);
      if (status.ok()) continue;
      for (EpochOfJob* epoch : together) epoch->decision = status;
    }
    AwaitDecisions(epochs);
    for (const auto& [sweep, together] : by_sweep) {
      for (EpochOfJob* epoch : together) {
        if (epoch->decision.ok()) epoch->decision = DecisionOf(epoch->job);
      }
    }
    return begun;
  }

  void Close() override {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    decided_.SignalAll();
  }

  void OnEnded(const std::string& id) override {
    absl::MutexLock lock(&mutex_);
    if (!owners_.contains(id)) return;
    // The trial may be waiting for this decision.
    decided_.SignalAll();
    messenger_.Send(JobMessage::Kind::kHasEnded, id);
  }

 private:
  void TellWhatWaits(v1::Sweep& sweep) const {
    for (v1::Trial& trial : *sweep.mutable_trials()) {
      for (const auto* jobs : {&trial.jobs(), &trial.test_jobs()}) {
        if (std::any_of(jobs->begin(), jobs->end(), [&](const auto& job) {
              return dependencies_.scheduler.IsSetAside(job);
            })) {
          trial.set_waiting_reason(kDraining);
        }
      }
    }
  }

  // INVALID_ARGUMENT if no metric exists to compare trials by.
  absl::Status CheckMetric(const v1::SweepSpec& spec) const {
    const std::string& name = spec.train().data().dataset();
    HEARTH_ASSIGN_OR_RETURN(const v1::Dataset dataset,
                            dependencies_.datasets.Get(name));
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

  // The order in which a new sweep's trials train on their data; empty if all
  // train on the same.
  absl::StatusOr<std::vector<uint32_t>> FindDataOrder(
      const v1::SweepSpec& spec) const {
    const std::vector<int64_t> data_of_trials = DataOfTrials(spec);
    std::vector<v1::TrainJobSpec> data;
    for (size_t trial = 0; trial < data_of_trials.size(); ++trial) {
      // Data are numbered in the order of their first trials.
      if (data_of_trials[trial] < std::ssize(data)) continue;
      HEARTH_ASSIGN_OR_RETURN(
          v1::JobSpec job,
          TrialJobSpec(dependencies_.admission.limits(), spec,
                       PointOf(spec, static_cast<int64_t>(trial)), 0));
      data.push_back(std::move(*job.mutable_train()));
    }
    if (data.empty()) return std::vector<uint32_t>();
    HEARTH_ASSIGN_OR_RETURN(
        const JobPage jobs,
        dependencies_.store.List({.states = {v1::SUCCEEDED},
                                  .page_size = JobQuery::kMaxPageSize,
                                  .page_token = ""}));
    return OrderOfData(data, jobs.jobs, [this](const std::string& plan) {
      const absl::StatusOr<plan::PlanInfo> info = dependencies_.plans.Get(plan);
      return info.ok() && info->state == plan::PlanInfo::State::kWhole;
    });
  }

  // Notes which trials of a new sweep equal earlier ones.
  void NoteEqualTrials(const v1::SweepSpec& spec,
                       v1::SweepStateChange& begin) const {
    std::map<std::string, uint32_t> firsts;
    const int64_t trials = ToSearchOptions(spec).trials;
    for (int64_t trial = 0; trial < trials; ++trial) {
      const auto number = static_cast<uint32_t>(trial + 1);
      const auto [first, is_new] =
          firsts.try_emplace(ResultKey(dependencies_.admission.limits(), spec,
                                       PointOf(spec, trial)),
                             number);
      begin.add_same_as(is_new ? 0 : first->second);
    }
    if (firsts.size() == static_cast<size_t>(trials)) begin.clear_same_as();
  }

  absl::StatusOr<LiveSweep*> FindLive(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = live_.find(id);
    if (found != live_.end()) return found->second.get();
    HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep,
                            dependencies_.sweeps.Get(id));
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

  // Records the epochs that trials of a sweep have ended together, before it
  // decides about any of them. Adds jobs that begin as a consequence to
  // `begun`.
  absl::Status Record(const std::string& id, std::vector<EpochOfJob*>& epochs,
                      std::vector<std::string>& begun)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // In an order that does not depend on which epoch came first.
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

  // The trial with a number, from 0. NOT_FOUND if there is none.
  static absl::StatusOr<int64_t> TrialIn(const LiveSweep& sweep,
                                         uint32_t number) {
    const int64_t trials = sweep.search().trials();
    if (number >= 1 && number <= trials) return int64_t{number} - 1;
    return absl::NotFoundError(absl::StrCat(
        sweep.summary().id(), " has no trial ", number, ", only ", trials));
  }

  // Waits until there are decisions about the jobs whose sweeps wait for users,
  // or until they have waited for as long as they may.
  void AwaitDecisions(absl::Span<EpochOfJob* const> epochs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const double begin = Clock::Real().SteadySeconds();
    for (const EpochOfJob* epoch : epochs) {
      while (const double wait = SecondsToWait(*epoch)) {
        const double left = begin + wait - Clock::Real().SteadySeconds();
        if (closed_) return;
        // Other jobs may wait for longer, as their sweeps say.
        if (left <= 0) break;
        decided_.WaitWithTimeout(&mutex_, absl::Seconds(left));
      }
    }
  }

  // Seconds that a job waits after its epoch, in all; 0 = it does not wait, or
  // there is a decision.
  double SecondsToWait(const EpochOfJob& epoch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const LiveSweep* sweep = FindOwner(epoch.job.id());
    if (sweep == nullptr || !epoch.decision.ok() || sweep->search().paused() ||
        epoch.stop.stop_requested()) {
      return 0;
    }
    const int64_t trial = int64_t{epoch.job.trial()} - 1;
    const auto continued = continued_.find({epoch.job.sweep(), trial});
    if (sweep::HasEnded(sweep->search().StateOf(trial)) ||
        epoch.report.epoch() >= epoch.job.spec().train().data().epochs() ||
        (continued != continued_.end() &&
         continued->second >= epoch.report.epoch())) {
      return 0;
    }
    return sweep->summary().spec().manual().verdict_wait();
  }

  // Last decision about a job.
  EpochDecision DecisionOf(const v1::Job& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto decision = decisions_.find(job.id());
    return decision == decisions_.end() ? EpochDecision::kGoOn
                                        : decision->second;
  }

  absl::StatusOr<v1::Sweep> ChangeState(const std::string& id,
                                        v1::SweepState state) {
    absl::MutexLock lock(&mutex_);
    HEARTH_ASSIGN_OR_RETURN(LiveSweep * sweep, FindLive(id));
    if (sweep->summary().state() == state) return sweep->ToProto();
    return Perform(id, StateEvent(state));
  }

  // Performs a step. Returns the sweep afterwards, and adds the ids of new jobs
  // to `begun`.
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
      SweepStep step = sweep.Apply(dependencies_.admission.limits(), event);
      step.epochs = std::move(epochs);
      HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                              dependencies_.sweeps.Commit(step));
      sweep.Stored(step, ids);
      TellJobs(step, ids, reporters);
      if (begun != nullptr) begun->insert(begun->end(), ids.begin(), ids.end());
      return absl::OkStatus();
    }();
    if (!status.ok()) {
      const absl::Status rebuilt = CatchUp(id);
      if (!rebuilt.ok()) {
        LogError(id, " does not go on: ", rebuilt.ToString());
        live_.erase(id);
      }
      return status;
    }
    // Callers that report epochs do not read the trials.
    v1::Sweep proto = reporters.empty() ? sweep.ToProto() : sweep.summary();
    if (HasEnded(proto.state())) {
      Count(proto, 1);
      live_.erase(id);
      std::erase_if(continued_,
                    [&](const auto& entry) { return entry.first.first == id; });
    }
    // The event may be of trials that wait for decisions.
    decided_.SignalAll();
    return proto;
  }

  // Notes the decisions about jobs, and queues messages to all jobs but the
  // reporters.
  void TellJobs(const SweepStep& step, const std::vector<std::string>& ids,
                const std::set<std::string>& reporters)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (size_t i = 0; i < ids.size(); ++i) {
      owners_[ids[i]] = {.sweep = step.sweep.id(),
                         .trial = int64_t{step.new_jobs[i].trial} - 1,
                         .replica = step.new_jobs[i].replica,
                         .is_test = step.new_jobs[i].spec.has_evaluate()};
      messenger_.Send(JobMessage::Kind::kRelease, ids[i]);
    }
    for (const std::string& id : step.held) {
      decisions_[id] = EpochDecision::kHold;
      if (!reporters.contains(id)) messenger_.Send(JobMessage::Kind::kHold, id);
    }
    for (const std::string& id : step.released) {
      decisions_.erase(id);
      messenger_.Send(JobMessage::Kind::kRelease, id);
    }
    for (const std::string& id : step.cancelled) {
      decisions_[id] = EpochDecision::kCancel;
      if (!reporters.contains(id))
        messenger_.Send(JobMessage::Kind::kCancel, id);
    }
  }

  // Rebuilds a sweep from the store, with the jobs that have ended meanwhile.
  absl::Status CatchUp(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<LiveSweep> sweep,
                            LiveSweep::Load(dependencies_.sweeps, id));
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                            dependencies_.sweeps.ReadJobs(id));
    for (const v1::Job& job : jobs) {
      const int64_t trial = int64_t{job.trial()} - 1;
      const bool is_test = job.spec().has_evaluate();
      if (is_test ? !sweep->IsTested(job.replica())
                  : sweep->search().HasEnded(trial, job.replica())) {
        continue;
      }
      owners_[job.id()] = {.sweep = id,
                           .trial = trial,
                           .replica = job.replica(),
                           .is_test = is_test};
      decisions_.erase(job.id());
      if (HasEnded(job.state()))
        messenger_.Send(JobMessage::Kind::kHasEnded, job.id());
      if (is_test) continue;
      const auto action = sweep->search().ActionOf(trial, job.replica());
      if (action == sweep::Action::kHold) {
        decisions_[job.id()] = EpochDecision::kHold;
      } else if (action == sweep::Action::kStop) {
        decisions_[job.id()] = EpochDecision::kCancel;
      }
    }
    EndReplicasWithoutJobs(id, *sweep);
    live_[id] = std::move(sweep);
    return absl::OkStatus();
  }

  // Ends replicas and tests whose jobs the store has lost. A placeholder stands
  // for such a job: it is no job's id, so its job is found to be gone.
  void EndReplicasWithoutJobs(const std::string& id, const LiveSweep& sweep)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto end = [&](const std::string& job, const JobOwner& of)
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                           const std::string name = absl::StrCat(id, ": ", job);
                           owners_[name] = of;
                           messenger_.Send(JobMessage::Kind::kHasEnded, name);
                         };
    const int64_t seeds = sweep.summary().spec().seeds();
    for (int64_t replica = 0; replica < seeds; ++replica) {
      for (int64_t trial = 0; trial < sweep.search().trials(); ++trial) {
        if (!sweep.search().ActionOf(trial, replica).has_value() ||
            sweep.search().HasEnded(trial, replica) ||
            !sweep.JobOf(trial, replica).empty()) {
          continue;
        }
        end(absl::StrCat("the job of trial ", trial + 1, ", replica ", replica),
            {.sweep = id, .trial = trial, .replica = replica});
      }
      if (sweep.IsTested(replica) && sweep.TestJobOf(replica).empty()) {
        end(absl::StrCat("the test job of replica ", replica),
            {.sweep = id, .replica = replica, .is_test = true});
      }
    }
  }

  // Called on the messenger's thread.
  absl::Status Deliver(const JobMessage& message) ABSL_LOCKS_EXCLUDED(mutex_) {
    switch (message.kind) {
      case JobMessage::Kind::kRelease:
        return dependencies_.scheduler.Release(message.jobs);
      case JobMessage::Kind::kHold:
        dependencies_.scheduler.Hold(message.jobs.front());
        return absl::OkStatus();
      case JobMessage::Kind::kCancel:
        return dependencies_.scheduler.Cancel(message.jobs.front());
      case JobMessage::Kind::kHasEnded:
        return HearEnd(message.jobs.front());
    }
    return absl::OkStatus();
  }

  absl::Status HearEnd(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::StatusOr<v1::Job> found = dependencies_.store.Get(id);
    if (absl::IsNotFound(found.status())) found = JobThatIsGone(id);
    HEARTH_ASSIGN_OR_RETURN(const v1::Job job, std::move(found));
    if (!HasEnded(job.state())) return absl::OkStatus();
    absl::MutexLock lock(&mutex_);
    const auto owner = owners_.find(id);
    if (owner == owners_.end()) return absl::OkStatus();
    const JobOwner of = owner->second;
    const auto sweep = live_.find(of.sweep);
    if (sweep != live_.end() && Awaits(*sweep->second, of)) {
      HEARTH_RETURN_IF_ERROR(Perform(of.sweep, of.is_test
                                                   ? EndOfTest(job, of)
                                                   : EndOfReplica(job, of))
                                 .status());
    }
    owners_.erase(id);
    decisions_.erase(id);
    return absl::OkStatus();
  }

  // Whether the sweep does not know yet that this job has ended.
  static bool Awaits(const LiveSweep& sweep, const JobOwner& of) {
    return of.is_test ? sweep.IsTested(of.replica)
                      : !sweep::HasEnded(sweep.search().StateOf(of.trial));
  }

  absl::Status Remove(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_) {
    HEARTH_ASSIGN_OR_RETURN(const v1::Sweep sweep,
                            dependencies_.sweeps.Get(id));
    if (!HasEnded(sweep.state())) {
      return absl::FailedPreconditionError(
          absl::StrCat(id, " has not ended; stop it first"));
    }
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                            dependencies_.sweeps.ReadJobs(id));
    for (const v1::Job& job : jobs) {
      if (HasEnded(job.state())) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(job.id(), " of ", id, " has not ended"));
    }
    for (const v1::Job& job : jobs) {
      v1::DeleteJobRequest request;
      request.set_id(job.id());
      const absl::Status status = dependencies_.admission.DeleteJob(request);
      if (!status.ok() && !absl::IsNotFound(status)) return status;
    }
    HEARTH_RETURN_IF_ERROR(dependencies_.sweeps.Delete(id));
    absl::MutexLock lock(&mutex_);
    Count(sweep, -1);
    return absl::OkStatus();
  }

  // Counts the trials of an ended sweep, `times` times.
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

  const SweepManagerDependencies dependencies_;
  absl::Mutex mutex_;
  // Sweeps that have not ended.
  std::map<std::string, std::unique_ptr<LiveSweep>> live_
      ABSL_GUARDED_BY(mutex_);
  // Owners of jobs whose end is not yet known here.
  std::map<std::string, JobOwner> owners_ ABSL_GUARDED_BY(mutex_);
  // Decisions about jobs that are not to continue.
  std::map<std::string, EpochDecision> decisions_ ABSL_GUARDED_BY(mutex_);
  // Signalled when there is a decision about a trial, when something happens to
  // its sweep, and when jobs need not wait any more.
  absl::CondVar decided_;
  // By sweep and trial: the last epoch after which the trial was continued.
  std::map<std::pair<std::string, int64_t>, int64_t> continued_
      ABSL_GUARDED_BY(mutex_);
  // Number of trials of ended sweeps, by state.
  std::map<int, int64_t> ended_counts_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  JobMessenger messenger_;
  std::map<int, std::unique_ptr<metrics::Gauge>> gauges_;
  // Last member: destroyed first, since it updates the gauges above.
  std::unique_ptr<metrics::CollectHook> hook_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SweepManager>> SweepManager::Make(
    const SweepManagerDependencies& dependencies) {
  auto manager = std::make_unique<SweepManagerImpl>(dependencies);
  HEARTH_RETURN_IF_ERROR(manager->Begin());
  return manager;
}

}  // namespace hearth::server
