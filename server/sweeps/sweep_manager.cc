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
#include <iterator>
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
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/sweep/search.h"
#include "engine/sweep/space.h"
#include "server/jobs/admission.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/sweep_mapping.h"
#include "server/storage/job_state.h"
#include "server/sweeps/live_sweep.h"

namespace hearth::server {
namespace {

constexpr absl::Duration kRetryInterval = absl::Seconds(1);

// Why a trial does not begin.
constexpr char kDraining[] = "hearthd drains: no trial begins";

constexpr v1::TrialState kTrialStates[] = {
    v1::TRIAL_PENDING,   v1::TRIAL_RUNNING, v1::TRIAL_WAITING,
    v1::TRIAL_SUCCEEDED, v1::TRIAL_FAILED,  v1::TRIAL_STOPPED};

// News for jobs.
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

// Stands for a job that the store has no more.
v1::Job JobThatIsGone(const std::string& id) {
  v1::Job job;
  job.set_id(id);
  job.set_state(v1::FAILED);
  job.mutable_error()->set_message(absl::StrCat(id, " is gone"));
  return job;
}

absl::Status EndedError(const v1::Sweep& sweep) {
  return absl::FailedPreconditionError(absl::StrCat(sweep.id(), " has ended"));
}

class SweepManagerImpl final : public SweepManager {
 public:
  explicit SweepManagerImpl(const SweepManagerDependencies& dependencies)
      : dependencies_(dependencies) {}

  ~SweepManagerImpl() override {
    dependencies_.scheduler.SetTrialObserver(nullptr);
    {
      absl::MutexLock lock(&mutex_);
      exiting_ = true;
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
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
          spdlog::error("{} does not go on: {}", sweep.id(), status.ToString());
        }
      }
    }
    dependencies_.scheduler.SetTrialObserver(this);
    thread_ = std::jthread([this] { Work(); });
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
    // The dataset stays until the first jobs need it.
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
    int64_t& judged = judged_[{request.id(), trial}];
    judged = std::max<int64_t>(judged, request.epoch());
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
      // Its sweep, or its trial, has ended, and somebody resumed it.
      const absl::Status status =
          dependencies_.store.AppendEpoch(epoch->job.id(), epoch->report);
      if (!status.ok()) epoch->decision = status;
    }
    for (auto& [sweep, together] : by_sweep) {
      const absl::Status status = Record(sweep, together, begun);
      if (status.ok()) continue;
      for (EpochOfJob* epoch : together) epoch->decision = status;
    }
    AwaitJudgement(epochs);
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
    // It may be one that waits to be judged.
    decided_.SignalAll();
    Tell(Message::Kind::kHasEnded, id);
  }

 private:
  struct Owner {
    std::string sweep;
    int64_t trial = 0;
    int64_t replica = 0;
    // Whether the job tests what another one has trained.
    bool is_test = false;
  };

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

  // INVALID_ARGUMENT if there is nothing to judge trials by.
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

  // The order in which a new sweep's trials train on their data; empty where
  // all train on the same.
  absl::StatusOr<std::vector<uint32_t>> FindDataOrder(
      const v1::SweepSpec& spec) const {
    const std::vector<int64_t> data_of_trials = DataOfTrials(spec);
    std::vector<v1::TrainJobSpec> data;
    for (size_t trial = 0; trial < data_of_trials.size(); ++trial) {
      // They are numbered as they come.
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

  // Notes which of a new sweep's trials are equal to earlier ones.
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

  // The trial of a number, from 0. NOT_FOUND if there is none.
  static absl::StatusOr<int64_t> TrialIn(const LiveSweep& sweep,
                                         uint32_t number) {
    const int64_t trials = sweep.search().trials();
    if (number >= 1 && number <= trials) return int64_t{number} - 1;
    return absl::NotFoundError(absl::StrCat(
        sweep.summary().id(), " has no trial ", number, ", only ", trials));
  }

  // Waits until those whose sweep wants it were judged, or have waited for as
  // long as they may.
  void AwaitJudgement(absl::Span<EpochOfJob* const> epochs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const double begin = Clock::Real().SteadySeconds();
    for (const EpochOfJob* epoch : epochs) {
      while (const double wait = SecondsToJudge(*epoch)) {
        const double left = begin + wait - Clock::Real().SteadySeconds();
        if (closed_) return;
        // Others may wait for longer: the sweep of each says how long.
        if (left <= 0) break;
        decided_.WaitWithTimeout(&mutex_, absl::Seconds(left));
      }
    }
  }

  // For how long a job waits after its epoch, in all; 0 = it goes on, stops, or
  // was judged.
  double SecondsToJudge(const EpochOfJob& epoch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const LiveSweep* sweep = FindOwner(epoch.job.id());
    if (sweep == nullptr || !epoch.decision.ok() || sweep->search().paused() ||
        epoch.stop.stop_requested()) {
      return 0;
    }
    const int64_t trial = int64_t{epoch.job.trial()} - 1;
    const auto judged = judged_.find({epoch.job.sweep(), trial});
    if (sweep::HasEnded(sweep->search().StateOf(trial)) ||
        epoch.report.epoch() >= epoch.job.spec().train().data().epochs() ||
        (judged != judged_.end() && judged->second >= epoch.report.epoch())) {
      return 0;
    }
    return sweep->summary().spec().manual().verdict_wait();
  }

  // The last decision about a job.
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
      std::erase_if(judged_,
                    [&](const auto& entry) { return entry.first.first == id; });
    }
    // It may be of trials that wait to be judged.
    decided_.SignalAll();
    return proto;
  }

  // Notes the fates of jobs, and has them told, all but those of the reporters.
  void TellJobs(const SweepStep& step, const std::vector<std::string>& ids,
                const std::set<std::string>& reporters)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (size_t i = 0; i < ids.size(); ++i) {
      owners_[ids[i]] = {.sweep = step.sweep.id(),
                         .trial = int64_t{step.new_jobs[i].trial} - 1,
                         .replica = step.new_jobs[i].replica,
                         .is_test = step.new_jobs[i].spec.has_evaluate()};
      Tell(Message::Kind::kRelease, ids[i]);
    }
    for (const std::string& id : step.held) {
      decisions_[id] = EpochDecision::kHold;
      if (!reporters.contains(id)) Tell(Message::Kind::kHold, id);
    }
    for (const std::string& id : step.released) {
      decisions_.erase(id);
      Tell(Message::Kind::kRelease, id);
    }
    for (const std::string& id : step.cancelled) {
      decisions_[id] = EpochDecision::kCancel;
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
      if (HasEnded(job.state())) Tell(Message::Kind::kHasEnded, job.id());
      if (is_test) continue;
      const auto action = sweep->search().ActionOf(trial, job.replica());
      if (action == sweep::Action::kHold) {
        decisions_[job.id()] = EpochDecision::kHold;
      } else if (action == sweep::Action::kStop) {
        decisions_[job.id()] = EpochDecision::kCancel;
      }
    }
    EndThoseWithoutJobs(id, *sweep);
    live_[id] = std::move(sweep);
    return absl::OkStatus();
  }

  // The store may have lost the jobs of replicas and of their tests. What
  // stands for such a job is no job's id, so that it is heard of as gone.
  void EndThoseWithoutJobs(const std::string& id, const LiveSweep& sweep)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto end = [&](const std::string& job, const Owner& of)
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                           const std::string name = absl::StrCat(id, ": ", job);
                           owners_[name] = of;
                           Tell(Message::Kind::kHasEnded, name);
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
        // A job that is gone needs to hear nothing.
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
        return dependencies_.scheduler.Release(message.jobs);
      case Message::Kind::kHold:
        dependencies_.scheduler.Hold(message.jobs.front());
        return absl::OkStatus();
      case Message::Kind::kCancel:
        return dependencies_.scheduler.Cancel(message.jobs.front());
      case Message::Kind::kHasEnded:
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
    const Owner of = owner->second;
    const auto sweep = live_.find(of.sweep);
    if (sweep != live_.end() && Awaits(*sweep->second, of)) {
      HEARTH_RETURN_IF_ERROR(
          Perform(of.sweep, of.is_test ? EndOfTest(job, of) : EndOf(job, of))
              .status());
    }
    owners_.erase(id);
    decisions_.erase(id);
    return absl::OkStatus();
  }

  // Whether the end of a job is news to its sweep.
  static bool Awaits(const LiveSweep& sweep, const Owner& of) {
    return of.is_test ? sweep.IsTested(of.replica)
                      : !sweep::HasEnded(sweep.search().StateOf(of.trial));
  }

  // Why a job that has ended did not succeed.
  static std::string ReasonOf(const v1::Job& job) {
    if (job.state() == v1::FAILED) return job.error().message();
    if (job.state() == v1::CANCELLED) {
      return absl::StrCat(job.id(), " was cancelled");
    }
    return "";
  }

  static v1::SweepEvent EndOf(const v1::Job& job, const Owner& of) {
    v1::SweepEvent event;
    v1::ReplicaEnd& end = *event.mutable_ended();
    end.set_trial(static_cast<uint32_t>(of.trial + 1));
    end.set_replica(static_cast<uint32_t>(of.replica));
    end.set_state(job.state());
    end.set_reason(ReasonOf(job));
    end.set_would_repeat(job.state() == v1::FAILED &&
                         job.error().code() ==
                             static_cast<int>(absl::StatusCode::kAborted));
    if (job.report().train().has_test_metric()) {
      end.set_test_metric(job.report().train().test_metric());
    }
    return event;
  }

  static v1::SweepEvent EndOfTest(const v1::Job& job, const Owner& of) {
    v1::SweepEvent event;
    v1::TestEnd& end = *event.mutable_tested();
    end.set_replica(static_cast<uint32_t>(of.replica));
    end.set_state(job.state());
    if (job.report().evaluate().has_test_metric()) {
      end.set_test_metric(job.report().evaluate().test_metric());
    } else if (job.state() == v1::SUCCEEDED) {
      end.set_reason("the dataset has no test nodes with labels");
    } else {
      end.set_reason(ReasonOf(job));
    }
    return event;
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

  const SweepManagerDependencies dependencies_;
  absl::Mutex mutex_;
  // Signalled when there is a message, and when the manager goes.
  absl::CondVar changed_;
  // Sweeps that have not ended.
  std::map<std::string, std::unique_ptr<LiveSweep>> live_
      ABSL_GUARDED_BY(mutex_);
  // Owners of the jobs whose end has not been heard of.
  std::map<std::string, Owner> owners_ ABSL_GUARDED_BY(mutex_);
  // Verdicts on those that shall not go on.
  std::map<std::string, EpochDecision> decisions_ ABSL_GUARDED_BY(mutex_);
  // Signalled when a trial was judged, or something happened to its sweep, and
  // when nobody is waited for any more.
  absl::CondVar decided_;
  // By sweep and trial: the epoch behind which it was let go on last.
  std::map<std::pair<std::string, int64_t>, int64_t> judged_
      ABSL_GUARDED_BY(mutex_);
  // Without the one that is being told.
  std::deque<Message> messages_ ABSL_GUARDED_BY(mutex_);
  // Trials of sweeps that have ended, by state.
  std::map<int, int64_t> ended_counts_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool exiting_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
  std::map<int, std::unique_ptr<metrics::Gauge>> gauges_;
  // Last: goes first, so that nothing is updated that is gone.
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
