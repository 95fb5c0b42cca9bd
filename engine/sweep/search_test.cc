#include "engine/sweep/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/random.h"

namespace hearth::sweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Decisions = Search::Decisions;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Decision Start(int64_t trial, int64_t replica = 0) {
  return {.trial = trial, .replica = replica, .action = Action::kStart};
}
Decision Hold(int64_t trial, int64_t replica = 0) {
  return {.trial = trial, .replica = replica, .action = Action::kHold};
}
Decision GoOn(int64_t trial, int64_t replica = 0) {
  return {.trial = trial, .replica = replica, .action = Action::kGoOn};
}
Decision Stop(int64_t trial, int64_t replica = 0) {
  return {.trial = trial, .replica = replica, .action = Action::kStop};
}

Decisions RecordOne(Search& search, const Report& report) {
  return search.Record({&report, 1});
}

// Trains as a search decides, with replicas in any order, and keeps all events.
class Driver {
 public:
  using Scores = std::function<double(const Report&)>;

  Driver(const SearchOptions& options, Scores scores, uint64_t order)
      : options_(options),
        search_(options),
        scores_(std::move(scores)),
        order_(order, RandomPurpose::kGenerator) {
    Follow(search_.Begin());
  }

  // Trains until the search is done.
  void Run() {
    while (!running_.empty()) Step();
  }

  // Lets one replica report or end.
  void Step() {
    auto it = running_.begin();
    std::advance(it, order_.Below(running_.size()));
    const int64_t trial = it->first;
    const auto replica = it->second;
    int64_t& epochs = epochs_[*it];
    if (epochs == options_.epochs) {
      running_.erase(it);
      events_.push_back([=](Search& s) {
        return s.End(trial, replica, Outcome::kSucceeded, "");
      });
    } else {
      Report report = {.trial = trial, .replica = replica, .epoch = ++epochs};
      report.score = scores_(report);
      if (report.score == kFails) {
        running_.erase(it);
        events_.push_back([=](Search& s) {
          return s.End(trial, replica, Outcome::kFailed, "diverged");
        });
      } else {
        events_.push_back([=](Search& s) { return RecordOne(s, report); });
      }
    }
    Follow(events_.back()(search_));
  }

  // Decisions of another search with the same events.
  std::vector<Decisions> Replay() const {
    Search other(options_);
    return Replay(other);
  }
  std::vector<Decisions> Replay(
      Search& other, const std::vector<int64_t>& originals = {}) const {
    std::vector<Decisions> all = {other.Begin({}, originals)};
    for (const auto& event : events_) all.push_back(event(other));
    return all;
  }

  std::set<int64_t> InState(TrialState state) const {
    std::set<int64_t> trials;
    for (int64_t i = 0; i < search_.trials(); ++i) {
      if (search_.StateOf(i) == state) trials.insert(i);
    }
    return trials;
  }

  const Search& search() const { return search_; }
  const std::vector<Decisions>& decisions() const { return decisions_; }

  static constexpr double kFails = -1e300;

 private:
  void Follow(const Decisions& decisions) {
    decisions_.push_back(decisions);
    for (const Decision& decision : decisions) {
      const std::pair<int64_t, int64_t> key = {decision.trial,
                                               decision.replica};
      switch (decision.action) {
        case Action::kStart:
          EXPECT_TRUE(started_.insert(key).second);
          EXPECT_TRUE(running_.insert(key).second);
          break;
        case Action::kGoOn:
          EXPECT_TRUE(running_.insert(key).second);
          break;
        case Action::kHold:
          EXPECT_EQ(running_.erase(key), 1u);
          break;
        case Action::kStop:
          running_.erase(key);
          break;
      }
    }
    std::set<int64_t> trials;
    for (const auto& [trial, replica] : running_) trials.insert(trial);
    EXPECT_LE(static_cast<int64_t>(trials.size()), options_.parallel);
  }

  const SearchOptions options_;
  Search search_;
  const Scores scores_;
  RandomStream order_;
  std::set<std::pair<int64_t, int64_t>> started_;
  std::set<std::pair<int64_t, int64_t>> running_;
  std::map<std::pair<int64_t, int64_t>, int64_t> epochs_;
  std::vector<std::function<Decisions(Search&)>> events_;
  std::vector<Decisions> decisions_;
};

// Scores without ties, by seed.
Driver::Scores RandomScores(uint64_t seed) {
  return [seed](const Report& report) {
    RandomStream random(seed, RandomPurpose::kGenerator,
                        static_cast<uint64_t>(report.trial),
                        static_cast<uint64_t>(report.replica),
                        static_cast<uint64_t>(report.epoch));
    return static_cast<double>(random.Next64() >> 11);
  };
}

// Mean over the replicas of the best score up to `epoch`, by the definition.
double BestUpTo(const Driver::Scores& scores, int64_t trial, int64_t replicas,
                int64_t epoch) {
  double sum = 0;
  for (int64_t r = 0; r < replicas; ++r) {
    double best = -std::numeric_limits<double>::infinity();
    for (int64_t e = 1; e <= epoch; ++e) {
      best = std::max(best, scores({.trial = trial, .replica = r, .epoch = e}));
    }
    sum += best;
  }
  return sum / static_cast<double>(replicas);
}

// Best ceil(n / eta) of `trials`, by the definition.
std::set<int64_t> BestOf(const std::set<int64_t>& trials, int64_t eta,
                         const std::function<double(int64_t)>& score) {
  std::vector<std::pair<double, int64_t>> order;
  for (const int64_t trial : trials) order.emplace_back(-score(trial), trial);
  std::sort(order.begin(), order.end());
  const size_t kept =
      (order.size() + static_cast<size_t>(eta) - 1) / static_cast<size_t>(eta);
  std::set<int64_t> best;
  for (size_t i = 0; i < kept; ++i) best.insert(order[i].second);
  return best;
}

TEST(RunAllTest, TrainsEachTrialToItsEndWithinTheRoom) {
  Driver driver({.trials = 7, .replicas = 2, .parallel = 3, .epochs = 2},
                RandomScores(1), 1);
  driver.Run();
  EXPECT_TRUE(driver.search().done());
  EXPECT_EQ(driver.InState(TrialState::kSucceeded).size(), 7u);
  for (const Decisions& decisions : driver.decisions()) {
    for (const Decision& decision : decisions) {
      EXPECT_EQ(decision.action, Action::kStart);
    }
  }
}

// Data 0 1 2 0 1 2 ..., the order of a grid.
TEST(DataTest, TrialsOfEqualDataBeginOneAfterTheOther) {
  Search search({.trials = 9,
                 .parallel = 2,
                 .epochs = 1,
                 .data = {0, 1, 2, 0, 1, 2, 0, 1, 2}});
  std::vector<int64_t> begun;
  const auto note = [&](const Decisions& decisions) {
    for (const Decision& decision : decisions) {
      if (decision.action == Action::kStart) begun.push_back(decision.trial);
    }
  };
  note(search.Begin());
  EXPECT_THAT(begun, ElementsAre(0, 3));
  for (size_t i = 0; i < 9; ++i) {
    const int64_t trial = begun[i];
    note(RecordOne(search, {.trial = trial, .epoch = 1, .score = 1}));
    note(search.End(trial, 0, Outcome::kSucceeded, ""));
  }
  EXPECT_THAT(begun, ElementsAre(0, 3, 6, 1, 4, 7, 2, 5, 8));
}

TEST(DataTest, DataIsBegunInTheOrderThatIsGiven) {
  Search search({.trials = 7, .epochs = 1, .data = {0, 1, 2, 3, 0, 1, 2}});
  // Data 3 is not in the order.
  std::vector<int64_t> begun = {search.Begin({2, 0, 1}).front().trial};
  while (begun.size() < 7) {
    const Decisions next = search.End(begun.back(), 0, Outcome::kSucceeded, "");
    ASSERT_EQ(next.size(), 1u);
    begun.push_back(next.front().trial);
  }
  EXPECT_THAT(begun, ElementsAre(2, 6, 0, 4, 1, 5, 3));
}

TEST(DataTest, TrialsThatAreAddedComeInTheirTurn) {
  Search search({.trials = 4, .epochs = 1, .data = {0, 1, 0, 1}});
  std::vector<int64_t> begun = {search.Begin().front().trial};
  EXPECT_THAT(search.AddTrial(), IsEmpty());
  while (begun.size() < 5) {
    const Decisions next = search.End(begun.back(), 0, Outcome::kSucceeded, "");
    ASSERT_EQ(next.size(), 1u);
    begun.push_back(next.front().trial);
  }
  EXPECT_THAT(begun, ElementsAre(0, 2, 1, 3, 4));
}

TEST(AshaTest, KeepsTheBestOfAllThatComeTogether) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    constexpr int64_t kTrials = 27;
    const auto scores = RandomScores(seed);
    Search search({.trials = kTrials,
                   .parallel = kTrials,
                   .epochs = 27,
                   .stopping = Asha{}});
    search.Begin();
    std::set<int64_t> left;
    for (int64_t i = 0; i < kTrials; ++i) left.insert(i);
    for (int64_t epoch = 1; epoch < 27; ++epoch) {
      std::vector<Report> reports;
      for (const int64_t trial : left) {
        Report report = {.trial = trial, .epoch = epoch};
        report.score = scores(report);
        reports.push_back(report);
      }
      const Decisions decisions = search.Record(reports);
      if (epoch == 1 || epoch == 3 || epoch == 9) {
        left = BestOf(left, 3, [&](int64_t trial) {
          return BestUpTo(scores, trial, 1, epoch);
        });
      }
      for (int64_t i = 0; i < kTrials; ++i) {
        EXPECT_EQ(search.StateOf(i) == TrialState::kRunning, left.contains(i));
      }
      for (const Decision& decision : decisions) {
        EXPECT_EQ(decision.action, Action::kStop);
      }
    }
    EXPECT_EQ(left.size(), 1u);
  }
}

TEST(AshaTest, JudgesLatecomersAmongThoseThatCameBefore) {
  // By the definition, result by result.
  for (uint64_t seed = 0; seed < 30; ++seed) {
    constexpr int64_t kTrials = 40;
    const auto scores = RandomScores(seed);
    Driver driver({.trials = kTrials,
                   .parallel = 1,
                   .epochs = 10,
                   .stopping = Asha{.eta = 3, .first_rung = 1}},
                  scores, seed);
    driver.Run();
    // One after another: each trial is compared with all trials before it.
    std::map<int64_t, std::set<int64_t>> rungs;
    for (int64_t trial = 0; trial < kTrials; ++trial) {
      bool goes_on = true;
      for (const int64_t rung : {1, 3, 9}) {
        if (!goes_on) break;
        rungs[rung].insert(trial);
        goes_on = BestOf(rungs[rung], 3, [&](int64_t t) {
                    return BestUpTo(scores, t, 1, rung);
                  }).contains(trial);
        if (!goes_on) {
          EXPECT_EQ(driver.search().EpochsOf(trial), rung);
        }
      }
      EXPECT_EQ(driver.search().StateOf(trial),
                goes_on ? TrialState::kSucceeded : TrialState::kStopped);
    }
  }
}

TEST(AshaTest, OrderOfReportsThatComeTogetherDoesNotMatter) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    RandomStream random(seed, RandomPurpose::kGenerator);
    std::vector<Report> reports;
    for (int64_t trial = 0; trial < 8; ++trial) {
      // Few values: ties are frequent.
      reports.push_back({.trial = trial,
                         .epoch = 1,
                         .score = static_cast<double>(random.Below(4))});
    }
    const SearchOptions options = {
        .trials = 12, .parallel = 8, .epochs = 9, .stopping = Asha{}};
    Search first(options);
    first.Begin();
    const Decisions expected = first.Record(reports);
    for (int turn = 0; turn < 5; ++turn) {
      std::shuffle(reports.begin(), reports.end(), random);
      Search other(options);
      other.Begin();
      EXPECT_EQ(other.Record(reports), expected);
      EXPECT_EQ(other.Ranking(), first.Ranking());
    }
  }
}

TEST(AshaTest, SaysWhyATrialWasStopped) {
  Search search({.trials = 4, .parallel = 4, .epochs = 9, .stopping = Asha{}});
  search.Begin();
  EXPECT_THAT(search.Record({{.trial = 0, .epoch = 1, .score = 4},
                             {.trial = 1, .epoch = 1, .score = 3},
                             {.trial = 2, .epoch = 1, .score = 3},
                             {.trial = 3, .epoch = 1, .score = 1}}),
              ElementsAre(Stop(2), Stop(3)));
  EXPECT_EQ(search.ReasonOf(2),
            "number 3 of 4 after epoch 1; the best 2 went on");
  EXPECT_EQ(search.ReasonOf(1), "");
}

TEST(AshaTest, WhatIsNotFiniteAndWhatFailedRanksLast) {
  Search search({.trials = 4, .parallel = 4, .epochs = 9, .stopping = Asha{}});
  search.Begin();
  EXPECT_THAT(search.End(0, 0, Outcome::kFailed, "diverged"), IsEmpty());
  EXPECT_EQ(search.ReasonOf(0), "diverged");
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(search.Record({{.trial = 1, .epoch = 1, .score = kNan},
                             {.trial = 2, .epoch = 1, .score = -7},
                             {.trial = 3, .epoch = 1, .score = infinity}}),
              ElementsAre(Stop(1), Stop(3)));
  // Two of the four places are left, for trial 2 and, by number, trial 0.
  EXPECT_EQ(search.StateOf(2), TrialState::kRunning);
  EXPECT_THAT(search.Ranking(), ElementsAre(2, 0));
}

TEST(HalvingTest, IsTheDefinitionInAnyOrderOfEvents) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    constexpr int64_t kTrials = 20;
    constexpr int64_t kReplicas = 2;
    const auto scores = RandomScores(seed);
    std::set<int64_t> left;
    for (int64_t i = 0; i < kTrials; ++i) left.insert(i);
    std::map<int64_t, std::set<int64_t>> stopped_at;
    for (const int64_t rung : {2, 4, 8}) {
      const std::set<int64_t> kept = BestOf(left, 2, [&](int64_t trial) {
        return BestUpTo(scores, trial, kReplicas, rung);
      });
      for (const int64_t trial : left) {
        if (!kept.contains(trial)) stopped_at[rung].insert(trial);
      }
      left = kept;
    }
    for (uint64_t order = 0; order < 3; ++order) {
      Driver driver({.trials = kTrials,
                     .replicas = kReplicas,
                     .parallel = 1 + static_cast<int64_t>(order) * 3,
                     .epochs = 10,
                     .stopping = Halving{.eta = 2, .first_rung = 2}},
                    scores, order);
      driver.Run();
      EXPECT_TRUE(driver.search().done());
      EXPECT_EQ(driver.InState(TrialState::kSucceeded), left);
      for (const auto& [rung, trials] : stopped_at) {
        for (const int64_t trial : trials) {
          EXPECT_EQ(driver.search().EpochsOf(trial), rung);
        }
      }
    }
  }
}

TEST(HalvingTest, DoesNotWaitForTrialsThatEnded) {
  Search search({.trials = 4,
                 .parallel = 4,
                 .epochs = 4,
                 .stopping = Halving{.eta = 2, .first_rung = 1}});
  search.Begin();
  EXPECT_THAT(RecordOne(search, {.trial = 0, .epoch = 1, .score = 1}),
              ElementsAre(Hold(0)));
  EXPECT_EQ(search.StateOf(0), TrialState::kWaiting);
  EXPECT_THAT(RecordOne(search, {.trial = 1, .epoch = 1, .score = 2}),
              ElementsAre(Hold(1)));
  EXPECT_THAT(search.StopTrial(2, "enough"), ElementsAre(Stop(2)));
  // Two of the three remaining trials continue.
  EXPECT_THAT(search.End(3, 0, Outcome::kFailed, "diverged"),
              ElementsAre(GoOn(0), GoOn(1)));
  EXPECT_FALSE(search.CanAddTrials());
}

TEST(HalvingTest, GoesOnWhereAllHaveFailed) {
  Driver driver(
      {.trials = 3, .parallel = 3, .epochs = 9, .stopping = Halving{}},
      [](const Report&) { return Driver::kFails; }, 1);
  driver.Run();
  EXPECT_TRUE(driver.search().done());
  EXPECT_EQ(driver.InState(TrialState::kFailed).size(), 3u);
}

TEST(MedianTest, StopsWhatIsWorseThanTheMedianOfTheOthers) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    constexpr int64_t kTrials = 15;
    constexpr int64_t kEpochs = 5;
    const auto scores = RandomScores(seed);
    Driver driver({.trials = kTrials,
                   .parallel = 1,
                   .epochs = kEpochs,
                   .stopping = Median{.first_epoch = 2, .min_others = 3}},
                  scores, seed);
    driver.Run();
    std::map<int64_t, std::vector<double>> means;
    for (int64_t trial = 0; trial < kTrials; ++trial) {
      int64_t epoch = 1;
      double sum = scores({.trial = trial, .epoch = 1});
      bool goes_on = true;
      while (goes_on && ++epoch < kEpochs) {
        sum += scores({.trial = trial, .epoch = epoch});
        std::vector<double>& others = means[epoch];
        std::sort(others.begin(), others.end());
        goes_on = others.size() < 3 || BestUpTo(scores, trial, 1, epoch) >=
                                           others[(others.size() - 1) / 2];
        others.push_back(sum / static_cast<double>(epoch));
      }
      EXPECT_EQ(driver.search().EpochsOf(trial), goes_on ? kEpochs : epoch);
      EXPECT_EQ(driver.search().StateOf(trial) == TrialState::kSucceeded,
                goes_on);
    }
    EXPECT_FALSE(driver.InState(TrialState::kStopped).empty());
  }
}

TEST(ReplayTest, GivesTheSameDecisions) {
  const std::vector<Stopping> rules = {RunAll{}, Asha{.eta = 2}, Halving{},
                                       Median{}};
  for (const Stopping& rule : rules) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const auto scores = [&](const Report& report) {
        // Some trials fail.
        return report.trial % 5 == 3 && report.epoch == 2
                   ? Driver::kFails
                   : RandomScores(seed)(report);
      };
      Driver driver({.trials = 17,
                     .replicas = 1 + static_cast<int64_t>(seed % 3),
                     .parallel = 4,
                     .epochs = 6,
                     .stopping = rule},
                    scores, seed);
      driver.Run();
      EXPECT_TRUE(driver.search().done());
      EXPECT_EQ(driver.Replay(), driver.decisions());
    }
  }
}

TEST(ReplicasTest, WaitForEachOtherAndAreJudgedByTheirMean) {
  Search search({.trials = 2,
                 .replicas = 2,
                 .parallel = 2,
                 .epochs = 2,
                 .stopping = Asha{.eta = 2}});
  EXPECT_THAT(search.Begin(),
              ElementsAre(Start(0, 0), Start(0, 1), Start(1, 0), Start(1, 1)));
  EXPECT_THAT(RecordOne(search, {0, 0, 1, 10}), ElementsAre(Hold(0, 0)));
  EXPECT_EQ(search.ScoreOf(0), std::nullopt);
  EXPECT_THAT(RecordOne(search, {0, 1, 1, 20}), ElementsAre(GoOn(0, 0)));
  EXPECT_EQ(search.ScoreOf(0), 15);
  EXPECT_EQ(search.ScoreOf(0, 1), 20);
  // One replica has the best score of all, but its trial not the best mean.
  EXPECT_THAT(RecordOne(search, {1, 1, 1, 25}), ElementsAre(Hold(1, 1)));
  EXPECT_THAT(RecordOne(search, {1, 0, 1, 1}),
              ElementsAre(Stop(1, 0), Stop(1, 1)));
  EXPECT_EQ(search.ScoreOf(1), 13);
}

TEST(ReplicasTest, FailTogether) {
  Search search({.trials = 1, .replicas = 2, .parallel = 1, .epochs = 2});
  search.Begin();
  EXPECT_THAT(search.End(0, 1, Outcome::kFailed, "diverged"),
              ElementsAre(Stop(0, 0)));
  EXPECT_EQ(search.StateOf(0), TrialState::kFailed);
  EXPECT_TRUE(search.done());
  EXPECT_THAT(search.End(0, 0, Outcome::kStopped, ""), IsEmpty());
  EXPECT_EQ(search.ReasonOf(0), "diverged");
}

TEST(ReplicasTest, OneThatEndsEarlyHoldsUpNobody) {
  Search search({.trials = 1,
                 .replicas = 2,
                 .parallel = 1,
                 .epochs = 9,
                 .stopping = Asha{.eta = 3, .first_rung = 3}});
  search.Begin();
  RecordOne(search, {0, 0, 1, 1});
  for (int64_t epoch = 1; epoch <= 2; ++epoch) {
    RecordOne(search, {0, 1, epoch, 1});
  }
  EXPECT_THAT(RecordOne(search, {0, 1, 3, 1}), ElementsAre(Hold(0, 1)));
  EXPECT_THAT(search.End(0, 0, Outcome::kSucceeded, ""),
              ElementsAre(GoOn(0, 1)));
}

TEST(PauseTest, HoldsAllAndLetsThemGoOn) {
  Search search({.trials = 3, .parallel = 2, .epochs = 3});
  EXPECT_THAT(search.Begin(), ElementsAre(Start(0), Start(1)));
  EXPECT_THAT(search.Pause(), ElementsAre(Hold(0), Hold(1)));
  // A replica may report, or end, before it has stopped.
  EXPECT_THAT(RecordOne(search, {.trial = 0, .epoch = 1}), IsEmpty());
  EXPECT_THAT(search.End(1, 0, Outcome::kSucceeded, ""), IsEmpty());
  EXPECT_THAT(search.Resume(), ElementsAre(GoOn(0), Start(2)));
}

TEST(PauseTest, ATrialThatMayGoOnWaitsForTheResumption) {
  Search search({.trials = 1, .parallel = 1, .epochs = 3, .stopping = Asha{}});
  search.Begin();
  search.Pause();
  EXPECT_THAT(RecordOne(search, {.trial = 0, .epoch = 1}), IsEmpty());
  EXPECT_EQ(search.StateOf(0), TrialState::kWaiting);
  EXPECT_THAT(search.Resume(), ElementsAre(GoOn(0)));
}

TEST(StopTest, EndsAllThatHasNotEnded) {
  Search search({.trials = 4, .parallel = 2, .epochs = 3});
  search.Begin();
  search.End(0, 0, Outcome::kSucceeded, "");
  EXPECT_THAT(search.StopAll("stopped"), ElementsAre(Stop(1), Stop(2)));
  EXPECT_TRUE(search.done());
  EXPECT_EQ(search.StateOf(3), TrialState::kStopped);
  EXPECT_EQ(search.ReasonOf(3), "stopped");
}

TEST(OpenTest, TakesTrialsUntilItIsStopped) {
  Search search({.parallel = 1, .epochs = 3, .is_open = true});
  EXPECT_THAT(search.Begin(), IsEmpty());
  EXPECT_FALSE(search.done());
  EXPECT_THAT(search.AddTrial(), ElementsAre(Start(0)));
  EXPECT_THAT(search.AddTrial(), IsEmpty());
  EXPECT_THAT(search.StopTrial(0, "pruned"), ElementsAre(Stop(0), Start(1)));
  search.End(1, 0, Outcome::kSucceeded, "");
  EXPECT_FALSE(search.done());
  EXPECT_TRUE(search.CanAddTrials());
  search.StopAll("stopped");
  EXPECT_TRUE(search.done());
  EXPECT_FALSE(search.CanAddTrials());
}

TEST(EqualTest, TakesStateAndResultOfItsOriginalAndNoRoom) {
  Search search({.trials = 4, .parallel = 2, .epochs = 3});
  EXPECT_THAT(search.Begin({}, {0, 0, 2, 2}), ElementsAre(Start(0), Start(2)));
  EXPECT_EQ(search.OriginalOf(0), std::nullopt);
  EXPECT_EQ(search.OriginalOf(1), 0);
  EXPECT_EQ(search.StateOf(1), TrialState::kRunning);
  search.Record({{.trial = 0, .epoch = 1, .score = 1},
                 {.trial = 2, .epoch = 1, .score = 5}});
  EXPECT_EQ(search.EpochsOf(1), 1);
  EXPECT_EQ(search.ScoreOf(1), 1);
  EXPECT_EQ(search.Best(), 2);
  EXPECT_THAT(search.Ranking(), ElementsAre(2, 3, 0, 1));
  search.End(0, 0, Outcome::kSucceeded, "");
  EXPECT_EQ(search.StateOf(1), TrialState::kSucceeded);
  EXPECT_FALSE(search.done());
  search.End(2, 0, Outcome::kFailed, "diverged");
  EXPECT_EQ(search.StateOf(3), TrialState::kFailed);
  EXPECT_EQ(search.ReasonOf(3), "diverged");
  EXPECT_THAT(search.Ranking(), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(search.done());
}

// Each trial twice; the decisions are as if it were there once.
TEST(EqualTest, NoRuleCountsIt) {
  for (const Stopping& stopping :
       {Stopping(Asha{}), Stopping(Halving{}), Stopping(Median{})}) {
    SearchOptions options = {.trials = 9,
                             .replicas = 2,
                             .parallel = 3,
                             .epochs = 9,
                             .stopping = stopping};
    Driver driver(options, RandomScores(3), 4);
    driver.Run();
    ASSERT_TRUE(driver.search().done());
    ASSERT_FALSE(driver.InState(TrialState::kStopped).empty());
    std::vector<int64_t> originals;
    for (int64_t i = 0; i < 18; ++i) originals.push_back(i % 9);
    options.trials = 18;
    Search twice(options);
    EXPECT_EQ(driver.Replay(twice, originals), driver.decisions());
    EXPECT_TRUE(twice.done());
    for (int64_t i = 0; i < 9; ++i) {
      EXPECT_EQ(twice.StateOf(i + 9), twice.StateOf(i));
      EXPECT_EQ(twice.ReasonOf(i + 9), twice.ReasonOf(i));
    }
  }
}

TEST(EqualTest, CanBeStoppedAloneOrWithItsOriginal) {
  Search search({.trials = 4, .parallel = 4, .epochs = 3});
  search.Begin({}, {0, 0, 0, 3});
  EXPECT_THAT(search.StopTrial(1, "mine"), IsEmpty());
  EXPECT_EQ(search.StateOf(0), TrialState::kRunning);
  EXPECT_EQ(search.OriginalOf(1), std::nullopt);
  EXPECT_EQ(search.ScoreOf(1), std::nullopt);
  EXPECT_THAT(search.Pause(), ElementsAre(Hold(0), Hold(3)));
  EXPECT_THAT(search.Resume(), ElementsAre(GoOn(0), GoOn(3)));
  EXPECT_THAT(search.StopTrial(0, "both"), ElementsAre(Stop(0)));
  EXPECT_EQ(search.StateOf(2), TrialState::kStopped);
  EXPECT_EQ(search.ReasonOf(1), "mine");
  EXPECT_EQ(search.ReasonOf(2), "both");
  EXPECT_FALSE(search.done());
  EXPECT_THAT(search.StopTrial(2, "again"), IsEmpty());
  search.End(3, 0, Outcome::kSucceeded, "");
  EXPECT_TRUE(search.done());
}

TEST(EqualTest, AnAddedOneTakesWhatIsThere) {
  Search search({.parallel = 1, .epochs = 3, .is_open = true});
  search.Begin();
  EXPECT_THAT(search.AddTrial(), ElementsAre(Start(0)));
  RecordOne(search, {.trial = 0, .epoch = 1, .score = 2});
  search.End(0, 0, Outcome::kSucceeded, "");
  EXPECT_THAT(search.AddTrial(0), IsEmpty());
  EXPECT_EQ(search.StateOf(1), TrialState::kSucceeded);
  EXPECT_EQ(search.ScoreOf(1, 0), 2);
  // A trial that has ended stays as it is.
  search.StopAll("stopped");
  EXPECT_EQ(search.StateOf(1), TrialState::kSucceeded);
  EXPECT_TRUE(search.done());
}

TEST(RecordTest, IgnoresWhatIsNotNew) {
  Search search({.trials = 1, .parallel = 1, .epochs = 9, .stopping = Asha{}});
  search.Begin();
  RecordOne(search, {.trial = 0, .epoch = 1, .score = 1});
  RecordOne(search, {.trial = 0, .epoch = 1, .score = 9});
  RecordOne(search, {.trial = 0, .epoch = 3, .score = 9});
  EXPECT_EQ(search.EpochsOf(0), 1);
  EXPECT_EQ(search.ScoreOf(0), 1);
}

TEST(RankingTest, LowerNumbersWinTiesAndOnlyResultsCount) {
  Search search({.trials = 4, .parallel = 4, .epochs = 3});
  search.Begin();
  search.Record({{.trial = 0, .epoch = 1, .score = 1},
                 {.trial = 1, .epoch = 1, .score = 2},
                 {.trial = 2, .epoch = 1, .score = 2}});
  EXPECT_THAT(search.Ranking(), ElementsAre(1, 2, 0));
  EXPECT_EQ(search.Best(), 1);
  search.End(1, 0, Outcome::kFailed, "diverged");
  EXPECT_THAT(search.Ranking(), ElementsAre(2, 0, 1));
  EXPECT_EQ(search.Best(), 2);
}

}  // namespace
}  // namespace hearth::sweep
