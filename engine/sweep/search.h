#ifndef HEARTH_ENGINE_SWEEP_SEARCH_H_
#define HEARTH_ENGINE_SWEEP_SEARCH_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/sweep/stopping_rule.h"

namespace hearth::sweep {

struct SearchOptions {
  /// Trials at the beginning.
  int64_t trials = 0;
  /// Replicas of each trial, which differ in their seeds alone. A trial is
  /// judged by the mean of their best results.
  int64_t replicas = 1;
  /// Trials that train at a time.
  int64_t parallel = 1;
  /// Epochs of a trial, at most.
  int64_t epochs = 1;
  Stopping stopping = RunAll{};
  /// [trials] the data that each of them trains on, numbered; empty: all train
  /// on the same. Of the trials that could begin, or go on, those come first
  /// whose data another one trains on, then those of the data that was begun
  /// last: so that plans, caches and passes are used again. Trials that are
  /// added have none.
  std::vector<int64_t> data = {};
  /// The search goes on without trials, waiting for more, until it is stopped.
  bool is_open = false;
};

/// The result of one epoch of a replica.
struct Report {
  int64_t trial = 0;
  int64_t replica = 0;
  /// From 1.
  int64_t epoch = 0;
  /// Greater is better; the worst of all if it is not finite.
  double score = 0;
};

/// Decision about a replica.
enum class Action {
  /// Train it from its beginning.
  kStart,
  /// Interrupt it; it may go on.
  kHold,
  /// Let it go on.
  kGoOn,
  /// End it for good.
  kStop,
};

struct Decision {
  int64_t trial = 0;
  int64_t replica = 0;
  Action action = Action::kStart;

  friend bool operator==(const Decision&, const Decision&) = default;
};

enum class TrialState {
  /// It has not begun.
  kPending,
  /// It trains.
  kRunning,
  /// It waits at a boundary for others, or for room.
  kWaiting,
  kSucceeded,
  kFailed,
  /// It was stopped, as its reason tells.
  kStopped,
};

inline bool HasEnded(TrialState state) {
  return state == TrialState::kSucceeded || state == TrialState::kFailed ||
         state == TrialState::kStopped;
}

/// Which trials of a sweep train, wait and stop: a state machine without clock
/// or threads. Events go in, decisions come out; the same events in the same
/// order give the same decisions, so that a search is stored as its events, and
/// rebuilt by replaying them.
///
///   kPending -> kRunning            there is room for it
///   kRunning -> kWaiting            all its replicas have reached a boundary
///   kWaiting -> kRunning            the stopping rule lets it go on
///   kRunning, kWaiting -> kStopped  the stopping rule, or somebody, stops it
///   kRunning -> kSucceeded          all its replicas have
///   kRunning, kWaiting -> kFailed   one of its replicas has
///   kPending -> kStopped            somebody stops it
///
/// A replica that reaches a boundary before others of its trial is held until
/// they are there. Events of trials that have ended change nothing.
///
/// A trial that is equal to an earlier one (its original) never trains: it has
/// the state, epochs and score of the original, whatever becomes of that one,
/// unless somebody stops it first. It takes no room, and no stopping rule
/// counts it. Single-owner.
class Search {
 public:
  using Decisions = std::vector<Decision>;

  /// REQUIRES: counts are at least 1, `trials` at least 0.
  explicit Search(const SearchOptions& options);

  /// The first decisions. Data (SearchOptions::data) whose number comes first
  /// in `data_order` is begun first; where it is empty, that of the lowest
  /// trial. `originals`: of each trial, the number of its original, an earlier
  /// trial that has none; the trial's own number where it has none; empty: no
  /// trial has one. Call once, before all else.
  Decisions Begin(absl::Span<const int64_t> data_order = {},
                  absl::Span<const int64_t> originals = {});

  /// Adds a trial, the one numbered trials(). REQUIRES: CanAddTrials();
  /// `original` is an earlier trial without an original.
  Decisions AddTrial(std::optional<int64_t> original = std::nullopt);
  bool CanAddTrials() const;

  /// Takes what replicas have reported that reached their epochs together: all
  /// of it is noted before any trial is judged. Epochs that are not the next of
  /// their replica are left out.
  Decisions Record(absl::Span<const Report> reports);

  /// A replica has ended; `reason` tells of one that has not succeeded.
  Decisions End(int64_t trial, int64_t replica, Outcome outcome,
                const std::string& reason);

  /// Ends a trial, or all of them and the search.
  Decisions StopTrial(int64_t trial, const std::string& reason);
  Decisions StopAll(const std::string& reason);

  /// Holds all replicas; lets those go on that are held for that alone.
  Decisions Pause();
  Decisions Resume();
  bool paused() const { return paused_; }

  /// Whether all trials have ended, and no more can come.
  bool done() const;

  int64_t trials() const { return static_cast<int64_t>(trials_.size()); }
  /// The equal trial whose result this one takes; nothing for one that trains.
  std::optional<int64_t> OriginalOf(int64_t trial) const {
    return At(trial).original;
  }
  TrialState StateOf(int64_t trial) const { return TrainedFor(trial).state; }
  /// Why a trial was stopped, or has failed; empty otherwise.
  const std::string& ReasonOf(int64_t trial) const {
    return TrainedFor(trial).reason;
  }
  /// Epochs that all replicas of the trial have reported.
  int64_t EpochsOf(int64_t trial) const;
  /// Epochs that the replica has reported, and whether End was told of it.
  int64_t EpochsOf(int64_t trial, int64_t replica) const;
  bool HasEnded(int64_t trial, int64_t replica) const;
  /// The mean of its replicas' best scores; nothing unless all have one.
  std::optional<double> ScoreOf(int64_t trial) const;
  /// The replica's best score; nothing if it has none.
  std::optional<double> ScoreOf(int64_t trial, int64_t replica) const;
  /// The last decision about a replica; nothing if it has not begun.
  std::optional<Action> ActionOf(int64_t trial, int64_t replica) const;

  /// The best trial that has not failed; nothing before one has a score.
  std::optional<int64_t> Best() const;

  /// Trials that have a score or have failed, the best first; failed ones last.
  std::vector<int64_t> Ranking() const;

 private:
  // The data of trials that were added.
  static constexpr int64_t kNoData = -1;

  struct Replica {
    int64_t epochs = 0;
    // The best score that is finite, and the sum of all.
    std::optional<double> best;
    double sum = 0;
    bool is_at_boundary = false;
    bool has_ended = false;
    std::optional<Action> told;
  };
  struct Trial {
    // kPending as long as there is an original.
    TrialState state = TrialState::kPending;
    std::optional<int64_t> original;
    std::optional<int64_t> boundary;
    std::vector<Replica> replicas;
    std::string reason;
  };

  const Replica& At(int64_t trial, int64_t replica) const {
    return At(trial).replicas[static_cast<size_t>(replica)];
  }
  Trial& At(int64_t trial) { return trials_[static_cast<size_t>(trial)]; }
  const Trial& At(int64_t trial) const {
    return trials_[static_cast<size_t>(trial)];
  }
  // The trial, or its original: what has its state and results.
  const Trial& TrainedFor(int64_t trial) const {
    return At(At(trial).original.value_or(trial));
  }
  static Result ResultOf(const Trial& trial);
  // Whether a replica has nothing more to report up to the trial's boundary.
  static bool IsThere(const Trial& trial, const Replica& replica);

  void Append(std::optional<int64_t> original);
  void Note(const Report& report);
  // Hands a trial that is complete at its boundary over to the rule.
  void CheckBoundary(int64_t number);
  void MoveTo(int64_t number, TrialState state);
  void EndTrial(int64_t number, TrialState state, const std::string& reason);
  void ApplyVerdicts();
  // Begins trials, and lets those go on that may, while there is room.
  void FillPlaces();
  // The one of `ready` that comes next.
  std::deque<int64_t>::iterator NextOf(std::deque<int64_t>& ready) const;
  int64_t DataOf(int64_t number) const;
  // Behind all others where there is none.
  size_t PlaceOf(int64_t number) const;
  // The decisions that follow from what has changed since the last ones.
  Decisions Settle();
  Action WantedOf(const Trial& trial, const Replica& replica) const;

  const SearchOptions options_;
  std::unique_ptr<StoppingRule> rule_;
  std::vector<Trial> trials_;
  bool is_open_;
  bool paused_ = false;
  int64_t running_ = 0;
  int64_t ended_ = 0;
  // Trials that have an original.
  int64_t copies_ = 0;
  // Trials that train on each data, and the data that was begun last.
  std::map<int64_t, int64_t> running_on_;
  int64_t last_data_ = kNoData;
  // By data: its place in the order in which they are begun.
  std::map<int64_t, size_t> places_;
  std::deque<int64_t> pending_;
  // Trials that may go on when there is room.
  std::deque<int64_t> promoted_;
  // Trials whose replicas may need another decision.
  std::set<int64_t> touched_;
};

}  // namespace hearth::sweep

#endif  // HEARTH_ENGINE_SWEEP_SEARCH_H_
