// An event, step by step:
//   1. Note it; hand trials that are complete at their boundary to the stopping
//      rule, where they wait.
//   2. The rule's decisions stop trials, or promote them.
//   3. While a place is free, promoted trials continue and pending ones begin.
//   4. Settle compares what each touched replica should do with the last
//      decision about it; the differences are the decisions. So a replica that
//      did not have to wait gets none.
#include "engine/sweep/search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hearth::sweep {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Search::Search(const SearchOptions& options)
    : options_(options),
      rule_(NewStoppingRule(options.stopping, options.trials, options.epochs)),
      is_open_(options.is_open) {}

Search::Decisions Search::Begin(absl::Span<const int64_t> data_order,
                                absl::Span<const int64_t> originals) {
  for (const int64_t data : data_order) {
    places_.try_emplace(data, places_.size());
  }
  for (int64_t i = 0; i < options_.trials; ++i) {
    const int64_t original =
        originals.empty() ? i : originals[static_cast<size_t>(i)];
    Append(original == i ? std::nullopt : std::optional(original));
  }
  return Settle();
}

bool Search::CanAddTrials() const {
  return !done() && !std::holds_alternative<Halving>(options_.stopping);
}

Search::Decisions Search::AddTrial(std::optional<int64_t> original) {
  Append(original);
  return Settle();
}

void Search::Append(std::optional<int64_t> original) {
  const int64_t number = trials();
  Trial& trial = trials_.emplace_back();
  trial.original = original;
  trial.boundary = rule_->NextBoundary(0);
  trial.replicas.resize(static_cast<size_t>(options_.replicas));
  if (!original.has_value()) {
    pending_.push_back(number);
    return;
  }
  ++copies_;
  // The rule must neither wait for the trial nor count it.
  rule_->End(number, trial.boundary.value_or(options_.epochs),
             Outcome::kStopped, Result());
}

Search::Decisions Search::Record(absl::Span<const Report> reports) {
  for (const Report& report : reports) Note(report);
  for (const Report& report : reports) CheckBoundary(report.trial);
  return Settle();
}

void Search::Note(const Report& report) {
  Trial& trial = At(report.trial);
  Replica& replica = trial.replicas[static_cast<size_t>(report.replica)];
  if (sweep::HasEnded(trial.state) || report.epoch != replica.epochs + 1)
    return;
  replica.epochs = report.epoch;
  replica.sum += report.score;
  if (std::isfinite(report.score)) {
    replica.best = std::max(replica.best.value_or(report.score), report.score);
  }
  replica.is_at_boundary = trial.boundary == report.epoch;
  touched_.insert(report.trial);
}

bool Search::IsThere(const Trial& trial, const Replica& replica) {
  return replica.has_ended || replica.epochs >= trial.boundary;
}

Result Search::ResultOf(const Trial& trial) {
  Result result;
  const auto count = static_cast<double>(trial.replicas.size());
  for (const Replica& replica : trial.replicas) {
    result.best += replica.best.value_or(kNone) / count;
    result.mean += replica.sum / static_cast<double>(replica.epochs) / count;
  }
  return result;
}

void Search::CheckBoundary(int64_t number) {
  Trial& trial = At(number);
  if (trial.state != TrialState::kRunning || !trial.boundary.has_value() ||
      !std::all_of(
          trial.replicas.begin(), trial.replicas.end(),
          [&](const Replica& replica) { return IsThere(trial, replica); })) {
    return;
  }
  MoveTo(number, TrialState::kWaiting);
  rule_->Reach(number, *trial.boundary, ResultOf(trial));
}

void Search::MoveTo(int64_t number, TrialState state) {
  Trial& trial = At(number);
  const int change = (state == TrialState::kRunning ? 1 : 0) -
                     (trial.state == TrialState::kRunning ? 1 : 0);
  running_ += change;
  running_on_[DataOf(number)] += change;
  ended_ += sweep::HasEnded(state) ? 1 : 0;
  trial.state = state;
  touched_.insert(number);
}

void Search::EndTrial(int64_t number, TrialState state,
                      const std::string& reason) {
  std::erase(pending_, number);
  std::erase(promoted_, number);
  MoveTo(number, state);
  At(number).reason = reason;
}

Search::Decisions Search::End(int64_t number, int64_t replica, Outcome outcome,
                              const std::string& reason) {
  Trial& trial = At(number);
  trial.replicas[static_cast<size_t>(replica)].has_ended = true;
  if (sweep::HasEnded(trial.state)) return {};
  const int64_t boundary = trial.boundary.value_or(options_.epochs);
  if (outcome == Outcome::kSucceeded) {
    if (std::all_of(trial.replicas.begin(), trial.replicas.end(),
                    [](const Replica& other) { return other.has_ended; })) {
      EndTrial(number, TrialState::kSucceeded, "");
      rule_->End(number, boundary, outcome, ResultOf(trial));
    } else {
      CheckBoundary(number);
    }
  } else {
    EndTrial(number,
             outcome == Outcome::kFailed ? TrialState::kFailed
                                         : TrialState::kStopped,
             reason);
    rule_->End(number, boundary, outcome, Result());
  }
  return Settle();
}

Search::Decisions Search::StopTrial(int64_t number, const std::string& reason) {
  if (sweep::HasEnded(StateOf(number))) return {};
  Trial& trial = At(number);
  if (trial.original.has_value()) {
    trial.original.reset();
    --copies_;
  }
  const int64_t boundary = trial.boundary.value_or(options_.epochs);
  EndTrial(number, TrialState::kStopped, reason);
  rule_->End(number, boundary, Outcome::kStopped, Result());
  return Settle();
}

Search::Decisions Search::StopAll(const std::string& reason) {
  is_open_ = false;
  for (int64_t number = 0; number < trials(); ++number) {
    if (!At(number).original && !sweep::HasEnded(At(number).state)) {
      EndTrial(number, TrialState::kStopped, reason);
    }
  }
  return Settle();
}

Search::Decisions Search::Pause() {
  paused_ = true;
  for (int64_t number = 0; number < trials(); ++number) touched_.insert(number);
  return Settle();
}

Search::Decisions Search::Resume() {
  paused_ = false;
  for (int64_t number = 0; number < trials(); ++number) touched_.insert(number);
  return Settle();
}

bool Search::done() const { return !is_open_ && ended_ + copies_ == trials(); }

void Search::ApplyDecisions() {
  for (const StopDecision& decision : rule_->Judge()) {
    if (!decision.goes_on) {
      EndTrial(decision.trial, TrialState::kStopped, decision.reason);
      continue;
    }
    Trial& trial = At(decision.trial);
    trial.boundary = rule_->NextBoundary(*trial.boundary);
    for (Replica& replica : trial.replicas) replica.is_at_boundary = false;
    promoted_.push_back(decision.trial);
  }
}

void Search::FillPlaces() {
  while (!paused_ && running_ < options_.parallel) {
    std::deque<int64_t>& next = promoted_.empty() ? pending_ : promoted_;
    if (next.empty()) return;
    const auto chosen = NextOf(next);
    last_data_ = DataOf(*chosen);
    MoveTo(*chosen, TrialState::kRunning);
    next.erase(chosen);
  }
}

std::deque<int64_t>::iterator Search::NextOf(std::deque<int64_t>& ready) const {
  if (options_.data.empty()) return ready.begin();
  auto of_last = ready.end();
  for (auto it = ready.begin(); it != ready.end(); ++it) {
    const int64_t data = DataOf(*it);
    if (data == kNoData) continue;
    const auto running = running_on_.find(data);
    if (running != running_on_.end() && running->second > 0) return it;
    if (of_last == ready.end() && data == last_data_) of_last = it;
  }
  if (of_last != ready.end()) return of_last;
  return std::min_element(
      ready.begin(), ready.end(),
      [this](int64_t a, int64_t b) { return PlaceOf(a) < PlaceOf(b); });
}

size_t Search::PlaceOf(int64_t number) const {
  const auto found = places_.find(DataOf(number));
  return found == places_.end() ? places_.size() : found->second;
}

int64_t Search::DataOf(int64_t number) const {
  const auto index = static_cast<size_t>(number);
  return index < options_.data.size() ? options_.data[index] : kNoData;
}

Action Search::WantedOf(const Trial& trial, const Replica& replica) const {
  if (sweep::HasEnded(trial.state)) return Action::kStop;
  if (paused_ || replica.is_at_boundary ||
      trial.state == TrialState::kWaiting) {
    return Action::kHold;
  }
  return replica.told.has_value() ? Action::kGoOn : Action::kStart;
}

Search::Decisions Search::Settle() {
  ApplyDecisions();
  FillPlaces();
  Decisions decisions;
  for (const int64_t number : touched_) {
    Trial& trial = At(number);
    if (trial.state == TrialState::kPending) continue;
    for (size_t i = 0; i < trial.replicas.size(); ++i) {
      Replica& replica = trial.replicas[i];
      const bool has_begun = replica.told.has_value();
      if (replica.has_ended || (sweep::HasEnded(trial.state) && !has_begun))
        continue;
      const Action wanted = WantedOf(trial, replica);
      // The replica trains already.
      if (wanted == replica.told ||
          (wanted == Action::kGoOn && replica.told == Action::kStart)) {
        continue;
      }
      replica.told = wanted;
      decisions.push_back({.trial = number,
                           .replica = static_cast<int64_t>(i),
                           .action = wanted});
    }
  }
  touched_.clear();
  return decisions;
}

int64_t Search::EpochsOf(int64_t number) const {
  const std::vector<Replica>& replicas = TrainedFor(number).replicas;
  return std::min_element(replicas.begin(), replicas.end(),
                          [](const Replica& a, const Replica& b) {
                            return a.epochs < b.epochs;
                          })
      ->epochs;
}

int64_t Search::EpochsOf(int64_t trial, int64_t replica) const {
  return At(trial, replica).epochs;
}

bool Search::HasEnded(int64_t trial, int64_t replica) const {
  return At(trial, replica).has_ended;
}

std::optional<double> Search::ScoreOf(int64_t number) const {
  const double best = ResultOf(TrainedFor(number)).best;
  if (!std::isfinite(best)) return std::nullopt;
  return best;
}

std::optional<double> Search::ScoreOf(int64_t trial, int64_t replica) const {
  return TrainedFor(trial).replicas[static_cast<size_t>(replica)].best;
}

std::optional<Action> Search::ActionOf(int64_t trial, int64_t replica) const {
  return At(trial, replica).told;
}

std::optional<int64_t> Search::Best() const {
  std::optional<int64_t> best;
  double best_score = kNone;
  for (int64_t number = 0; number < trials(); ++number) {
    if (StateOf(number) == TrialState::kFailed) continue;
    const std::optional<double> score = ScoreOf(number);
    if (!score.has_value()) continue;
    if (!best || ComesBefore(number, *score, *best, best_score)) {
      best = number;
      best_score = *score;
    }
  }
  return best;
}

std::vector<int64_t> Search::Ranking() const {
  std::vector<int64_t> ranking;
  for (int64_t number = 0; number < trials(); ++number) {
    if (StateOf(number) == TrialState::kFailed || ScoreOf(number)) {
      ranking.push_back(number);
    }
  }
  const auto score = [this](int64_t number) {
    return StateOf(number) == TrialState::kFailed
               ? kNone
               : ScoreOf(number).value_or(kNone);
  };
  std::sort(ranking.begin(), ranking.end(), [&](int64_t a, int64_t b) {
    return ComesBefore(a, score(a), b, score(b));
  });
  return ranking;
}

}  // namespace hearth::sweep
