#include "engine/sweep/stopping_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hearth::sweep {
namespace {

constexpr double kWorst = -std::numeric_limits<double>::infinity();

// Maps a result to one that is ordered by `<` as ComesBefore orders.
double Comparable(double value) {
  return std::isfinite(value) ? value : kWorst;
}

// Best results of trials at one rung, by trial.
using Rung = std::map<int64_t, double>;

int64_t PlacesOf(const Rung& rung, int64_t eta) {
  return (static_cast<int64_t>(rung.size()) + eta - 1) / eta;
}

// Rank of a trial at the rung, from 0.
int64_t RankOf(const Rung& rung, int64_t trial) {
  const double own = rung.at(trial);
  return std::count_if(rung.begin(), rung.end(), [&](const auto& other) {
    return ComesBefore(other.first, other.second, trial, own);
  });
}

StopDecision JudgeAt(const Rung& rung, int64_t boundary, int64_t eta,
                     int64_t trial) {
  const int64_t rank = RankOf(rung, trial);
  const int64_t places = PlacesOf(rung, eta);
  if (rank < places) return {.trial = trial, .goes_on = true, .reason = ""};
  return {.trial = trial,
          .goes_on = false,
          .reason = absl::StrCat("number ", rank + 1, " of ", rung.size(),
                                 " after epoch ", boundary, "; the best ",
                                 places, " went on")};
}

std::optional<int64_t> NextRung(int64_t first, int64_t eta, int64_t epochs,
                                int64_t epoch) {
  int64_t rung = first;
  while (rung <= epoch && rung < epochs) rung *= eta;
  if (rung >= epochs) return std::nullopt;
  return rung;
}

class RunAllRule final : public StoppingRule {
 public:
  std::optional<int64_t> NextBoundary(int64_t) const override {
    return std::nullopt;
  }
  void Reach(int64_t, int64_t, const Result&) override {}
  void End(int64_t, int64_t, Outcome, const Result&) override {}
  std::vector<StopDecision> Judge() override { return {}; }
};

class AshaRule final : public StoppingRule {
 public:
  AshaRule(const Asha& options, int64_t epochs)
      : options_(options), epochs_(epochs) {}

  std::optional<int64_t> NextBoundary(int64_t epoch) const override {
    return NextRung(options_.first_rung, options_.eta, epochs_, epoch);
  }

  void Reach(int64_t trial, int64_t boundary, const Result& result) override {
    rungs_[boundary][trial] = result.best;
    unjudged_.emplace(trial, boundary);
  }

  void End(int64_t trial, int64_t boundary, Outcome outcome,
           const Result& final) override {
    if (outcome == Outcome::kStopped) return;
    if (outcome == Outcome::kFailed) {
      rungs_[boundary][trial] = kWorst;
      return;
    }
    for (std::optional<int64_t> at = boundary; at; at = NextBoundary(*at)) {
      rungs_[*at][trial] = final.best;
    }
  }

  std::vector<StopDecision> Judge() override {
    std::vector<StopDecision> decisions;
    for (const auto& [trial, boundary] : unjudged_) {
      decisions.push_back(
          JudgeAt(rungs_[boundary], boundary, options_.eta, trial));
    }
    unjudged_.clear();
    return decisions;
  }

 private:
  const Asha options_;
  const int64_t epochs_;
  std::map<int64_t, Rung> rungs_;
  // Boundaries of trials that wait for a decision.
  std::map<int64_t, int64_t> unjudged_;
};

class HalvingRule final : public StoppingRule {
 public:
  HalvingRule(const Halving& options, int64_t trials, int64_t epochs)
      : options_(options), epochs_(epochs), boundary_(NextBoundary(0)) {
    for (int64_t trial = 0; trial < trials; ++trial) awaited_.insert(trial);
  }

  std::optional<int64_t> NextBoundary(int64_t epoch) const override {
    return NextRung(options_.first_rung, options_.eta, epochs_, epoch);
  }

  void Reach(int64_t trial, int64_t, const Result& result) override {
    awaited_.erase(trial);
    rung_[trial] = result.best;
  }

  void End(int64_t trial, int64_t, Outcome outcome,
           const Result& final) override {
    awaited_.erase(trial);
    rung_.erase(trial);
    if (outcome == Outcome::kStopped) return;
    rung_[trial] = outcome == Outcome::kFailed ? kWorst : final.best;
    ended_[trial] = outcome;
  }

  std::vector<StopDecision> Judge() override {
    std::vector<StopDecision> decisions;
    // If only trials that have ended are at the next rung, it is judged, too.
    while (boundary_.has_value() && awaited_.empty() && !rung_.empty()) {
      JudgeRung(decisions);
    }
    return decisions;
  }

 private:
  void JudgeRung(std::vector<StopDecision>& decisions) {
    Rung next;
    for (const auto& [trial, best] : rung_) {
      StopDecision decision = JudgeAt(rung_, *boundary_, options_.eta, trial);
      const auto ended = ended_.find(trial);
      if (ended != ended_.end()) {
        // A trial that has succeeded keeps its place in later rungs.
        if (decision.goes_on && ended->second == Outcome::kSucceeded) {
          next[trial] = best;
        }
        continue;
      }
      if (decision.goes_on) awaited_.insert(trial);
      decisions.push_back(std::move(decision));
    }
    rung_ = std::move(next);
    boundary_ = NextBoundary(*boundary_);
  }

  const Halving options_;
  const int64_t epochs_;
  // Rung to judge next; nullopt after the last one.
  std::optional<int64_t> boundary_;
  // Trials that have yet to reach the rung, and trials that have.
  std::set<int64_t> awaited_;
  Rung rung_;
  std::map<int64_t, Outcome> ended_;
};

class MedianRule final : public StoppingRule {
 public:
  MedianRule(const Median& options, int64_t epochs)
      : options_(options), epochs_(epochs) {}

  std::optional<int64_t> NextBoundary(int64_t epoch) const override {
    const int64_t next = std::max(epoch + 1, options_.first_epoch);
    if (next >= epochs_) return std::nullopt;
    return next;
  }

  void Reach(int64_t trial, int64_t boundary, const Result& result) override {
    means_[boundary][trial] = result.mean;
    unjudged_[trial] = {boundary, result.best};
  }

  void End(int64_t trial, int64_t boundary, Outcome outcome,
           const Result& final) override {
    if (outcome == Outcome::kStopped) return;
    if (outcome == Outcome::kFailed) {
      means_[boundary][trial] = kWorst;
      return;
    }
    for (int64_t at = boundary; at < epochs_; ++at) {
      means_[at][trial] = final.mean;
    }
  }

  std::vector<StopDecision> Judge() override {
    std::vector<StopDecision> decisions;
    for (const auto& [trial, reached] : unjudged_) {
      decisions.push_back(JudgeTrial(trial, reached.first, reached.second));
    }
    unjudged_.clear();
    return decisions;
  }

 private:
  StopDecision JudgeTrial(int64_t trial, int64_t boundary, double best) const {
    std::vector<double> others;
    for (const auto& [other, mean] : means_.at(boundary)) {
      if (other != trial) others.push_back(Comparable(mean));
    }
    const auto count = static_cast<int64_t>(others.size());
    if (count < options_.min_others || Comparable(best) >= MedianOf(others)) {
      return {.trial = trial, .goes_on = true, .reason = ""};
    }
    return {.trial = trial,
            .goes_on = false,
            .reason = absl::StrCat("worse after epoch ", boundary,
                                   " than the median of ", count, " others")};
  }

  // Median; the lower one of two middle values, so that a trial that reaches
  // half of the others continues. REQUIRES: at least one value.
  static double MedianOf(std::vector<double> values) {
    const auto middle = values.begin() + (values.size() - 1) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  const Median options_;
  const int64_t epochs_;
  // Means of trials' results up to each boundary.
  std::map<int64_t, std::map<int64_t, double>> means_;
  // Boundaries and best results of trials that wait for a decision.
  std::map<int64_t, std::pair<int64_t, double>> unjudged_;
};

}  // namespace

bool ComesBefore(int64_t a, double x, int64_t b, double y) {
  const double left = Comparable(x);
  const double right = Comparable(y);
  return left != right ? left > right : a < b;
}

std::unique_ptr<StoppingRule> NewStoppingRule(const Stopping& stopping,
                                              int64_t trials, int64_t epochs) {
  if (const auto* asha = std::get_if<Asha>(&stopping)) {
    return std::make_unique<AshaRule>(*asha, epochs);
  }
  if (const auto* halving = std::get_if<Halving>(&stopping)) {
    return std::make_unique<HalvingRule>(*halving, trials, epochs);
  }
  if (const auto* median = std::get_if<Median>(&stopping)) {
    return std::make_unique<MedianRule>(*median, epochs);
  }
  return std::make_unique<RunAllRule>();
}

}  // namespace hearth::sweep
