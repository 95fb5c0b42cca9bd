#include "server/sweeps/live_sweep.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "server/mapping/spec_mapping.h"
#include "server/mapping/sweep_mapping.h"
#include "server/storage/job_state.h"

namespace hearth::server {

namespace {

// A job's rows are taken to be cold once jobs have trained on this many other
// data.
constexpr size_t kWarmData = 8;
// Distance of data with one more layer, or with a fan-out of all neighbors.
constexpr double kLayerDistance = 100;
constexpr double kAllNeighbors = 1000;

// What earlier jobs have left of some data.
struct Known {
  // Number of other data that jobs have trained on since.
  size_t age = 0;
  bool has_plans = false;
};

// Key of the data that a job has trained on or prepared; empty for other jobs.
std::string DataOf(const v1::JobSpec& spec) {
  if (spec.has_train()) return SharingKeyOf(spec.train());
  if (!spec.has_prepare()) return "";
  v1::TrainJobSpec train;
  *train.mutable_data() = spec.prepare().data();
  *train.mutable_pipeline() = spec.prepare().pipeline();
  v1::TrainSpec& model = *train.add_trains();
  if (spec.prepare().training_only()) model.mutable_none();
  return SharingKeyOf(train);
}

// Whether the job has made or found plans, and all of them still exist.
bool HasPlans(const v1::JobReport& report,
              absl::FunctionRef<bool(const std::string& plan)> has_plan) {
  std::set<std::string> plans;
  for (const auto& preparation : report.train().preparations()) {
    plans.insert(preparation.plan());
  }
  if (report.prepare().has_preparation()) {
    plans.insert(report.prepare().preparation().plan());
  }
  plans.erase("");
  return !plans.empty() && std::all_of(plans.begin(), plans.end(), has_plan);
}

// Sizes that determine how much a batch reads: of the batch and of each layer.
std::vector<double> SizesOf(const v1::DataSpec& data) {
  std::vector<double> sizes = {static_cast<double>(data.batch_size())};
  for (const auto* fanouts :
       {&data.neighbor().fanouts(), &data.subgraph().fanouts()}) {
    for (const int32_t fanout : *fanouts) {
      sizes.push_back(fanout < 0 ? kAllNeighbors : fanout);
    }
  }
  for (const uint32_t nodes : data.ladies().layer_nodes()) {
    sizes.push_back(nodes);
  }
  return sizes;
}

double Distance(const v1::DataSpec& one, const v1::DataSpec& other) {
  const std::vector<double> a = SizesOf(one);
  const std::vector<double> b = SizesOf(other);
  double distance = kLayerDistance * std::abs(static_cast<double>(a.size()) -
                                              static_cast<double>(b.size()));
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    distance += std::abs(std::log1p(a[i]) - std::log1p(b[i]));
  }
  return distance;
}

std::map<std::string, Known> KnownData(
    absl::Span<const v1::Job> jobs,
    absl::FunctionRef<bool(const std::string& plan)> has_plan) {
  std::map<std::string, Known> known;
  for (const v1::Job& job : jobs) {
    const std::string data = DataOf(job.spec());
    if (data.empty()) continue;
    const size_t age = known.size();
    Known& of_data = known.try_emplace(data, Known{.age = age}).first->second;
    of_data.has_plans = of_data.has_plans || HasPlans(job.report(), has_plan);
  }
  return known;
}

}  // namespace

std::vector<uint32_t> OrderOfData(
    absl::Span<const v1::TrainJobSpec> data, absl::Span<const v1::Job> jobs,
    absl::FunctionRef<bool(const std::string& plan)> has_plan) {
  const std::map<std::string, Known> known = KnownData(jobs, has_plan);
  // Within each group by number, so that a repeated sweep has the same order.
  std::vector<uint32_t> order;
  std::vector<uint32_t> warm;
  std::set<uint32_t> others;
  for (uint32_t i = 0; i < data.size(); ++i) {
    const auto found = known.find(SharingKeyOf(data[i]));
    if (found != known.end() && found->second.has_plans) {
      order.push_back(i);
    } else if (found != known.end() && found->second.age < kWarmData) {
      warm.push_back(i);
    } else {
      others.insert(i);
    }
  }
  order.insert(order.end(), warm.begin(), warm.end());
  if (order.empty() && !others.empty()) {
    order.push_back(*others.begin());
    others.erase(others.begin());
  }
  while (!others.empty()) {
    const v1::DataSpec& last = data[order.back()].data();
    const auto nearest = std::min_element(
        others.begin(), others.end(), [&](uint32_t a, uint32_t b) {
          return Distance(data[a].data(), last) <
                 Distance(data[b].data(), last);
        });
    order.push_back(*nearest);
    others.erase(nearest);
  }
  return order;
}

namespace {

constexpr int kEventsPerRead = 1000;
constexpr char kStopped[] = "stopped by a request";
constexpr char kSweepStopped[] = "the sweep was stopped";

sweep::SearchOptions OptionsOf(const v1::SweepSpec& spec) {
  sweep::SearchOptions options = ToSearchOptions(spec);
  options.data = DataOfTrials(spec);
  return options;
}

const std::string& NoJob() {
  static const auto& none = *new std::string();
  return none;
}

sweep::Outcome OutcomeOf(v1::JobState state) {
  switch (state) {
    case v1::SUCCEEDED:
      return sweep::Outcome::kSucceeded;
    case v1::FAILED:
      return sweep::Outcome::kFailed;
    default:
      return sweep::Outcome::kStopped;
  }
}

sweep::Point ReadPoint(
    const google::protobuf::RepeatedPtrField<v1::TrialSetting>& settings) {
  sweep::Point point;
  for (const v1::TrialSetting& setting : settings) {
    point.push_back({setting.name(), setting.value()});
  }
  return point;
}

// Originals in the form that Search::Begin takes.
std::vector<int64_t> OriginalsOf(const v1::SweepStateChange& begin) {
  std::vector<int64_t> originals;
  for (int64_t trial = 0; trial < begin.same_as_size(); ++trial) {
    const uint32_t same_as = begin.same_as(static_cast<int>(trial));
    originals.push_back(same_as == 0 ? trial : int64_t{same_as} - 1);
  }
  return originals;
}

void AddSettings(
    const sweep::Point& point,
    google::protobuf::RepeatedPtrField<v1::TrialSetting>* settings) {
  for (const sweep::Setting& setting : point) {
    v1::TrialSetting& added = *settings->Add();
    added.set_name(setting.name);
    added.set_value(setting.value);
  }
}

}  // namespace

LiveSweep::LiveSweep(const v1::Sweep& summary)
    : summary_(summary), search_(OptionsOf(summary.spec())) {}

absl::StatusOr<std::unique_ptr<LiveSweep>> LiveSweep::Load(
    SweepStore& store, const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Sweep summary, store.Get(id));
  auto sweep = std::make_unique<LiveSweep>(summary);
  uint64_t next = 1;
  // Later events are not for this copy.
  while (next <= summary.last_sequence()) {
    HEARTH_ASSIGN_OR_RETURN(const SweepEventBatch batch,
                            store.ReadEvents(id, next, kEventsPerRead));
    if (batch.events.empty()) break;
    for (const v1::SweepEvent& event : batch.events) {
      if (event.sequence() > summary.last_sequence()) break;
      sweep->Feed(event);
    }
    next = batch.events.back().sequence() + 1;
  }
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, store.ReadJobs(id));
  for (const v1::Job& job : jobs) {
    if (job.spec().has_evaluate()) {
      sweep->NoteTestJob(job.replica(), job.id());
      continue;
    }
    const size_t trial = job.trial() - 1;
    if (sweep->jobs_.size() <= trial) sweep->jobs_.resize(trial + 1);
    std::vector<std::string>& replicas = sweep->jobs_[trial];
    if (replicas.size() <= job.replica()) replicas.resize(job.replica() + 1);
    replicas[job.replica()] = job.id();
  }
  return sweep;
}

sweep::Search::Decisions LiveSweep::Feed(const v1::SweepEvent& event) {
  switch (event.payload_case()) {
    case v1::SweepEvent::kState:
      switch (event.state().state()) {
        case v1::SWEEP_RUNNING:
          if (search_.paused()) return search_.Resume();
          for (int64_t i = 0; i < ToSearchOptions(summary_.spec()).trials;
               ++i) {
            points_.push_back(PointOf(summary_.spec(), i));
          }
          return search_.Begin(
              std::vector<int64_t>(event.state().data_order().begin(),
                                   event.state().data_order().end()),
              OriginalsOf(event.state()));
        case v1::SWEEP_PAUSED:
          return search_.Pause();
        case v1::SWEEP_STOPPED:
          if (!tests_.empty()) test_fault_ = kSweepStopped;
          return search_.StopAll(kSweepStopped);
        default:
          return {};
      }
    case v1::SweepEvent::kAdded:
      points_.push_back(ReadPoint(event.added().parameters()));
      if (event.added().same_as() == 0) return search_.AddTrial();
      return search_.AddTrial(int64_t{event.added().same_as()} - 1);
    case v1::SweepEvent::kResults: {
      std::vector<sweep::Report> reports;
      std::set<uint32_t> together;
      for (const v1::EpochResult& result : event.results().results()) {
        together.insert(result.trial());
      }
      for (const v1::EpochResult& result : event.results().results()) {
        peers_[int64_t{result.trial()} - 1] = together;
        reports.push_back({.trial = int64_t{result.trial()} - 1,
                           .replica = result.replica(),
                           .epoch = result.epoch(),
                           .score = ScoreOf(result, event.results().metric())});
      }
      return search_.Record(reports);
    }
    case v1::SweepEvent::kEnded: {
      const v1::ReplicaEnd& end = event.ended();
      const int64_t trial = int64_t{end.trial()} - 1;
      if (end.has_test_metric()) {
        test_metrics_[{trial, end.replica()}] = end.test_metric();
      }
      if (end.state() != v1::SUCCEEDED && !end.would_repeat()) {
        cut_short_.insert(trial);
      }
      return search_.End(trial, end.replica(), OutcomeOf(end.state()),
                         end.reason());
    }
    case v1::SweepEvent::kStop: {
      const int64_t trial = int64_t{event.stop().trial()} - 1;
      cut_short_.insert(trial);
      return search_.StopTrial(trial, kStopped);
    }
    case v1::SweepEvent::kTest:
      tested_trial_ = int64_t{event.test().trial()} - 1;
      test_fault_ = event.test().fault();
      for (const v1::TrialDecision& decision : event.decisions()) {
        tests_.insert(decision.replica());
      }
      return {};
    case v1::SweepEvent::kTested: {
      const v1::TestEnd& end = event.tested();
      tests_.erase(end.replica());
      if (end.has_test_metric()) {
        test_metrics_[{*tested_trial_, end.replica()}] = end.test_metric();
      } else if (test_fault_.empty()) {
        test_fault_ = end.reason();
      }
      return {};
    }
    case v1::SweepEvent::PAYLOAD_NOT_SET:
      break;
  }
  return {};
}

SweepStep LiveSweep::Apply(const SpecLimits& limits,
                           const v1::SweepEvent& event) {
  SweepStep step;
  // A trial that cannot begin ends by an event of its own.
  std::deque<v1::SweepEvent> events = {event};
  while (!events.empty()) {
    v1::SweepEvent next = std::move(events.front());
    events.pop_front();
    for (const sweep::Decision& decision : Feed(next)) {
      const absl::Status begun = Note(limits, decision, next, step);
      if (begun.ok()) continue;
      v1::ReplicaEnd& end = *events.emplace_back().mutable_ended();
      end.set_trial(static_cast<uint32_t>(decision.trial + 1));
      end.set_replica(static_cast<uint32_t>(decision.replica));
      end.set_state(v1::FAILED);
      end.set_reason(std::string(begun.message()));
    }
    if (next.has_state()) {
      summary_.set_state(next.state().state());
      ChangeTests(next.state().state(), step);
    }
    if (next.has_results()) summary_.set_metric(next.results().metric());
    step.events.push_back(std::move(next));
  }
  if (search_.done() && !HasEnded(summary_.state())) Finish(limits, step);
  Summarize();
  step.sweep = summary_;
  return step;
}

void LiveSweep::Finish(const SpecLimits& limits, SweepStep& step) {
  const std::optional<int64_t> best = search_.Best();
  if (summary_.spec().tests_best() && best.has_value() &&
      !tested_trial_.has_value()) {
    // The test of a paused sweep begins when the sweep resumes.
    if (summary_.state() == v1::SWEEP_PAUSED) return;
    BeginTest(limits, *best, step);
  }
  if (!tests_.empty()) return;
  summary_.set_state(v1::SWEEP_DONE);
  step.events.emplace_back().mutable_state()->set_state(v1::SWEEP_DONE);
}

void LiveSweep::BeginTest(const SpecLimits& limits, int64_t trial,
                          SweepStep& step) {
  v1::SweepEvent event;
  v1::TestBegin& begin = *event.mutable_test();
  begin.set_trial(static_cast<uint32_t>(trial + 1));
  std::vector<SweepStep::NewJob> jobs;
  if (search_.StateOf(trial) != sweep::TrialState::kSucceeded) {
    begin.set_fault(absl::StrCat("trial ", trial + 1,
                                 ", the best, did not train to its end"));
  }
  for (uint32_t replica = 0;
       replica < summary_.spec().seeds() && begin.fault().empty(); ++replica) {
    const std::string& trained = JobOf(trial, replica);
    if (trained.empty()) {
      begin.set_fault(absl::StrCat("the job of trial ", trial + 1, ", replica ",
                                   replica, " is gone"));
      break;
    }
    absl::StatusOr<v1::JobSpec> spec =
        TestJobSpec(limits, summary_.spec(), point(trial), replica, trained);
    if (!spec.ok()) {
      begin.set_fault(std::string(spec.status().message()));
      break;
    }
    jobs.push_back(
        {.spec = *std::move(spec), .trial = begin.trial(), .replica = replica});
  }
  if (begin.fault().empty()) {
    for (SweepStep::NewJob& job : jobs) {
      v1::TrialDecision& decision = *event.add_decisions();
      decision.set_trial(job.trial);
      decision.set_replica(job.replica);
      decision.set_action(v1::TrialDecision::START);
      step.new_jobs.push_back(std::move(job));
    }
  }
  Feed(event);
  step.events.push_back(std::move(event));
}

void LiveSweep::ChangeTests(v1::SweepState state, SweepStep& step) const {
  for (const int64_t replica : tests_) {
    const std::string& job = TestJobOf(replica);
    // The store has lost the test's job.
    if (job.empty()) continue;
    if (state == v1::SWEEP_PAUSED) step.held.push_back(job);
    if (state == v1::SWEEP_RUNNING) step.released.push_back(job);
    if (state == v1::SWEEP_STOPPED) step.cancelled.push_back(job);
  }
}

bool LiveSweep::IsTested(int64_t replica) const {
  return tests_.contains(replica);
}

void LiveSweep::NoteTestJob(uint32_t replica, const std::string& id) {
  test_jobs_.resize(std::max<size_t>(test_jobs_.size(), replica + 1));
  test_jobs_[replica] = id;
}

absl::Status LiveSweep::Note(const SpecLimits& limits,
                             const sweep::Decision& decision,
                             v1::SweepEvent& event, SweepStep& step) {
  v1::TrialDecision& proto = *event.add_decisions();
  proto.set_trial(static_cast<uint32_t>(decision.trial + 1));
  proto.set_replica(static_cast<uint32_t>(decision.replica));
  proto.set_action(server::ToProto(decision.action));
  if (decision.action == sweep::Action::kStart) {
    HEARTH_ASSIGN_OR_RETURN(
        v1::JobSpec spec,
        TrialJobSpec(limits, summary_.spec(), point(decision.trial),
                     decision.replica));
    step.new_jobs.push_back({.spec = std::move(spec),
                             .trial = proto.trial(),
                             .replica = proto.replica()});
    return absl::OkStatus();
  }
  if (decision.action == sweep::Action::kStop) {
    proto.set_reason(search_.ReasonOf(decision.trial));
  }
  const std::string& job = JobOf(decision.trial, decision.replica);
  // The replica could not begin.
  if (job.empty()) return absl::OkStatus();
  if (decision.action == sweep::Action::kHold) step.held.push_back(job);
  if (decision.action == sweep::Action::kGoOn) step.released.push_back(job);
  if (decision.action == sweep::Action::kStop) step.cancelled.push_back(job);
  return absl::OkStatus();
}

void LiveSweep::Stored(const SweepStep& step,
                       const std::vector<std::string>& ids) {
  summary_ = step.sweep;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (step.new_jobs[i].spec.has_evaluate()) {
      NoteTestJob(step.new_jobs[i].replica, ids[i]);
      continue;
    }
    const size_t trial = step.new_jobs[i].trial - 1;
    if (jobs_.size() <= trial) jobs_.resize(trial + 1);
    std::vector<std::string>& replicas = jobs_[trial];
    replicas.resize(
        std::max<size_t>(replicas.size(), step.new_jobs[i].replica + 1));
    replicas[step.new_jobs[i].replica] = ids[i];
  }
}

std::optional<int64_t> LiveSweep::OriginalOf(const SpecLimits& limits,
                                             const sweep::Point& point) {
  const std::string key = ResultKey(limits, summary_.spec(), point);
  while (keys_.size() < points_.size()) {
    keys_.push_back(ResultKey(limits, summary_.spec(), points_[keys_.size()]));
  }
  for (int64_t trial = 0; trial < search_.trials(); ++trial) {
    if (keys_[static_cast<size_t>(trial)] == key &&
        !search_.OriginalOf(trial) && !cut_short_.contains(trial)) {
      return trial;
    }
  }
  return std::nullopt;
}

const std::string& LiveSweep::TestJobOf(int64_t replica) const {
  const auto at = static_cast<size_t>(replica);
  return at < test_jobs_.size() ? test_jobs_[at] : NoJob();
}

const std::string& LiveSweep::JobOf(int64_t trial, int64_t replica) const {
  const auto row = static_cast<size_t>(trial);
  const auto column = static_cast<size_t>(replica);
  return row < jobs_.size() && column < jobs_[row].size() ? jobs_[row][column]
                                                          : NoJob();
}

void LiveSweep::Summarize() {
  std::map<v1::TrialState, uint32_t> counts;
  for (int64_t trial = 0; trial < search_.trials(); ++trial) {
    ++counts[server::ToProto(search_.StateOf(trial))];
  }
  summary_.clear_counts();
  for (const auto& [state, trials] : counts) {
    v1::TrialCount& count = *summary_.add_counts();
    count.set_state(state);
    count.set_trials(trials);
  }
  summary_.clear_best_trial();
  summary_.clear_best_metric();
  summary_.clear_best_parameters();
  summary_.clear_best_test_metric();
  summary_.set_test_fault(test_fault_);
  const std::optional<int64_t> best = search_.Best();
  if (!best.has_value()) return;
  summary_.set_best_trial(static_cast<uint32_t>(*best + 1));
  summary_.set_best_metric(ValueOf(*search_.ScoreOf(*best), summary_.metric()));
  AddSettings(point(*best), summary_.mutable_best_parameters());
  if (const std::optional<double> test = TestMetricOf(*best)) {
    summary_.set_best_test_metric(*test);
  }
}

std::optional<double> LiveSweep::TestMetricOf(int64_t trial) const {
  double sum = 0;
  for (int64_t replica = 0; replica < summary_.spec().seeds(); ++replica) {
    const auto found = test_metrics_.find({TrainedFor(trial), replica});
    if (found == test_metrics_.end()) return std::nullopt;
    sum += found->second;
  }
  return sum / summary_.spec().seeds();
}

v1::Sweep LiveSweep::ToProto() const {
  v1::Sweep sweep = summary_;
  for (int64_t trial = 0; trial < search_.trials(); ++trial) {
    *sweep.add_trials() = TrialToProto(trial);
  }
  uint32_t rank = 0;
  for (const int64_t trial : search_.Ranking()) {
    sweep.mutable_trials(static_cast<int>(trial))->set_rank(++rank);
  }
  return sweep;
}

v1::Trial LiveSweep::TrialToProto(int64_t number) const {
  v1::Trial trial;
  trial.set_number(static_cast<uint32_t>(number + 1));
  trial.set_state(server::ToProto(search_.StateOf(number)));
  AddSettings(point(number), trial.mutable_parameters());
  trial.set_epochs(static_cast<uint32_t>(search_.EpochsOf(number)));
  trial.set_reason(search_.ReasonOf(number));
  if (const std::optional<double> score = search_.ScoreOf(number)) {
    trial.set_metric(ValueOf(*score, summary_.metric()));
  }
  const int64_t trained = TrainedFor(number);
  if (trained != number) trial.set_same_as(static_cast<uint32_t>(trained + 1));
  std::optional<double> best;
  for (int64_t replica = 0; replica < summary_.spec().seeds(); ++replica) {
    const std::string& job = JobOf(trained, replica);
    if (job.empty()) continue;
    if (trained == number) trial.add_jobs(job);
    const std::optional<double> score = search_.ScoreOf(number, replica);
    if (!score.has_value() || (best.has_value() && *score <= *best)) continue;
    best = score;
    if (trial.has_metric()) trial.set_best_job(job);
  }
  if (const std::optional<double> test = TestMetricOf(number)) {
    trial.set_test_metric(*test);
  }
  if (number == tested_trial_) {
    for (const std::string& job : test_jobs_) {
      if (!job.empty()) trial.add_test_jobs(job);
    }
  }
  if (const auto found = peers_.find(number); found != peers_.end()) {
    for (const uint32_t other : found->second) {
      if (other != trial.number()) trial.add_shared_with(other);
    }
  }
  return trial;
}

}  // namespace hearth::server
