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

/// The search of a sweep: its options, the events that it takes and the
/// decisions that it returns.

namespace hearth::sweep {

struct SearchOptions {
  /// Number of trials at the beginning.
  int64_t trials = 0;
  /// Replicas of each trial, which differ only in their seeds. A trial's result
  /// is the mean of its replicas' best results.
  int64_t replicas = 1;
  /// Number of trials that train at a time.
  int64_t parallel = 1;
  /// Maximum number of epochs of a trial.
  int64_t epochs = 1;
  Stopping stopping = RunAll{};
  /// [trials] Number of the data that each trial trains on; empty: all train on
  /// the same. Of the trials that could begin, or continue, first come trials
  /// whose data another trial trains on, then trials on the data that was begun
  /// last, so that plans, caches and passes are reused. Added trials have no
  /// data.
  std::vector<int64_t> data = {};
  /// Whether the search continues without trials, and waits for new ones until
  /// it is stopped.
  bool is_open = false;
};

/// Result of one epoch of a replica.
struct Report {
  int64_t trial = 0;
  int64_t replica = 0;
  /// Number of the epoch, from 1.
  int64_t epoch = 0;
  /// Greater is better; a score that is not finite is the worst.
  double score = 0;
};

/// Decision about a replica.
enum class Action {
  /// Train the replica from its beginning.
  kStart,
  /// Interrupt the replica; it may continue later.
  kHold,
  /// Continue the replica.
  kGoOn,
  /// End the replica for good.
  kStop,
};

struct Decision {
  int64_t trial = 0;
  int64_t replica = 0;
  Action action = Action::kStart;

  friend bool operator==(const Decision&, const Decision&) = default;
};

enum class TrialState {
  /// The trial has not begun.
  kPending,
  /// The trial trains.
  kRunning,
  /// The trial waits at a boundary, for other trials or for a place.
  kWaiting,
  kSucceeded,
  kFailed,
  /// The trial was stopped, for its reason.
  kStopped,
};

inline bool HasEnded(TrialState state) {
  return state == TrialState::kSucceeded || state == TrialState::kFailed ||
         state == TrialState::kStopped;
}

/// Decides which trials of a sweep train, wait and stop: a state machine
/// without clock or threads. Events go in, decisions come out; the same events
/// in the same order lead to the same decisions, so that a search is stored as
/// its events and rebuilt by replaying them.
///
///   kPending -> kRunning            a place is free for the trial
///   kRunning -> kWaiting            all its replicas have reached a boundary
///   kWaiting -> kRunning            the stopping rule continues it
///   kRunning, kWaiting -> kStopped  the stopping rule, or a user, stops it
///   kRunning -> kSucceeded          all its replicas have succeeded
///   kRunning, kWaiting -> kFailed   one of its replicas has failed
///   kPending -> kStopped            a user stops it
///
/// A replica that reaches a boundary before others of its trial is held until
/// they have reached it. Events of trials that have ended change nothing.
///
/// A trial that equals an earlier one (its original) never trains: it has the
/// state, epochs and score of the original, whatever they become, unless a user
/// stops it first. It takes no place, and no stopping rule counts it.
/// Single-owner.
class Search {
 public:
  using Decisions = std::vector<Decision>;

  /// REQUIRES: counts are at least 1, `trials` at least 0.
  explicit Search(const SearchOptions& options);

  /// Returns the first decisions. Data (SearchOptions::data) begin in
  /// `data_order`; if it is empty, in the order of their first trials.
  /// `originals` has, for each trial, the number of its original, an earlier
  /// trial without an original, or its own number if it has none; empty: no
  /// trial has an original. Call once, before all other calls.
  Decisions Begin(absl::Span<const int64_t> data_order = {},
                  absl::Span<const int64_t> originals = {});

  /// Adds a trial with the number trials(). REQUIRES: CanAddTrials();
  /// `original` is an earlier trial without an original.
  Decisions AddTrial(std::optional<int64_t> original = std::nullopt);
  bool CanAddTrials() const;

  /// Records results that replicas have reported together: all results are
  /// noted before there is a decision about any trial. Ignores epochs that are
  /// not the next one of their replica.
  Decisions Record(absl::Span<const Report> reports);

  /// Ends a replica; `reason` tells why it has not succeeded.
  Decisions End(int64_t trial, int64_t replica, Outcome outcome,
                const std::string& reason);

  /// Ends a trial, or all trials and the search.
  Decisions StopTrial(int64_t trial, const std::string& reason);
  Decisions StopAll(const std::string& reason);

  /// Holds all replicas; continues the replicas that are held only by Pause.
  Decisions Pause();
  Decisions Resume();
  bool paused() const { return paused_; }

  /// Whether all trials have ended, and none can be added.
  bool done() const;

  int64_t trials() const { return static_cast<int64_t>(trials_.size()); }
  /// The equal trial whose result this trial takes; nullopt for a trial that
  /// trains.
  std::optional<int64_t> OriginalOf(int64_t trial) const {
    return At(trial).original;
  }
  TrialState StateOf(int64_t trial) const { return TrainedFor(trial).state; }
  /// Why a trial was stopped or failed; empty otherwise.
  const std::string& ReasonOf(int64_t trial) const {
    return TrainedFor(trial).reason;
  }
  /// Number of epochs that all replicas of the trial have reported.
  int64_t EpochsOf(int64_t trial) const;
  /// Number of epochs that the replica has reported; whether it has ended.
  int64_t EpochsOf(int64_t trial, int64_t replica) const;
  bool HasEnded(int64_t trial, int64_t replica) const;
  /// Mean of the best scores of the replicas; nullopt unless all have one.
  std::optional<double> ScoreOf(int64_t trial) const;
  /// Best score of the replica; nullopt if it has none.
  std::optional<double> ScoreOf(int64_t trial, int64_t replica) const;
  /// Last decision about a replica; nullopt if it has not begun.
  std::optional<Action> ActionOf(int64_t trial, int64_t replica) const;

  /// Best trial that has not failed; nullopt before a trial has a score.
  std::optional<int64_t> Best() const;

  /// Trials that have a score or have failed, best first, failed ones last.
  std::vector<int64_t> Ranking() const;

 private:
  // Data of trials that were added.
  static constexpr int64_t kNoData = -1;

  struct Replica {
    int64_t epochs = 0;
    // Best finite score, and the sum of all scores.
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
  // The trial, or its original, which has its state and results.
  const Trial& TrainedFor(int64_t trial) const {
    return At(At(trial).original.value_or(trial));
  }
  static Result ResultOf(const Trial& trial);
  // Whether a replica has reported all epochs up to the trial's boundary.
  static bool IsThere(const Trial& trial, const Replica& replica);

  void Append(std::optional<int64_t> original);
  void Note(const Report& report);
  // Hands a trial whose replicas are all at its boundary to the rule.
  void CheckBoundary(int64_t number);
  void MoveTo(int64_t number, TrialState state);
  void EndTrial(int64_t number, TrialState state, const std::string& reason);
  void ApplyDecisions();
  // Begins and continues trials while places are free.
  void FillPlaces();
  // The next one of the trials in `ready`.
  std::deque<int64_t>::iterator NextOf(std::deque<int64_t>& ready) const;
  int64_t DataOf(int64_t number) const;
  // Place of the trial's data in their order; after all others if it has none.
  size_t PlaceOf(int64_t number) const;
  // Decisions that follow from the changes since the last ones.
  Decisions Settle();
  Action WantedOf(const Trial& trial, const Replica& replica) const;

  const SearchOptions options_;
  std::unique_ptr<StoppingRule> rule_;
  std::vector<Trial> trials_;
  bool is_open_;
  bool paused_ = false;
  int64_t running_ = 0;
  int64_t ended_ = 0;
  // Number of trials that have an original.
  int64_t copies_ = 0;
  // Number of trials that train on each data; the data that was begun last.
  std::map<int64_t, int64_t> running_on_;
  int64_t last_data_ = kNoData;
  // Places of data in the order in which they begin.
  std::map<int64_t, size_t> places_;
  std::deque<int64_t> pending_;
  // Trials that continue once a place is free.
  std::deque<int64_t> promoted_;
  // Trials whose replicas may need another decision.
  std::set<int64_t> touched_;
};

}  // namespace hearth::sweep

#endif  // HEARTH_ENGINE_SWEEP_SEARCH_H_
