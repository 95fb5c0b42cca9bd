#ifndef HEARTH_SERVER_SWEEPS_LIVE_SWEEP_H_
#define HEARTH_SERVER_SWEEPS_LIVE_SWEEP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sweep/search.h"
#include "engine/sweep/space.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/sweeps.pb.h"
#include "server/mapping/spec_mapping.h"
#include "server/storage/sweep_store.h"

/// A sweep that has not ended, rebuilt from its stored events. Decisions are
/// made by engine/sweep; here they become steps that the store takes in one
/// transaction.

namespace hearth::server {

/// The order in which the trials of a sweep train on their data: first data
/// whose plans exist, then data that jobs have trained on lately, whose rows
/// may still be in memory, then the others, each time the nearest by batch size
/// and fan-outs. `data` has a validated spec for each; `jobs` are jobs that
/// have succeeded, newest first; `has_plan` tells whether a plan can be used,
/// by its name. Returns indices in `data`.
std::vector<uint32_t> OrderOfData(
    absl::Span<const v1::TrainJobSpec> data, absl::Span<const v1::Job> jobs,
    absl::FunctionRef<bool(const std::string& plan)> has_plan);

/// A sweep in memory: its search, fed with the contract's events, and the jobs
/// of its trials. Trials are numbered from 0, as in the search.
/// Thread-compatible.
class LiveSweep {
 public:
  /// A sweep before its first event. `summary` has its validated spec.
  explicit LiveSweep(const v1::Sweep& summary);

  /// Rebuilds the sweep `id` from its events in the store.
  static absl::StatusOr<std::unique_ptr<LiveSweep>> Load(SweepStore& store,
                                                         const std::string& id);

  /// Feeds an event to the search, adds the resulting decisions to it, and
  /// returns the step that stores all of it except a job's epoch. Call Stored
  /// once it is stored. A trial whose job this machine cannot run fails.
  SweepStep Apply(const SpecLimits& limits, const v1::SweepEvent& event);

  /// Notes that a step is stored, with the ids of its new jobs.
  void Stored(const SweepStep& step, const std::vector<std::string>& ids);

  const sweep::Search& search() const { return search_; }
  const v1::Sweep& summary() const { return summary_; }
  const sweep::Point& point(int64_t trial) const {
    return points_[static_cast<size_t>(trial)];
  }
  /// The earlier trial whose result a new trial at `point` takes: a trial with
  /// an equal job that trains, or whose result would be the same again. nullopt
  /// if there is none.
  std::optional<int64_t> OriginalOf(const SpecLimits& limits,
                                    const sweep::Point& point);

  /// Job of the replica; empty before it begins.
  const std::string& JobOf(int64_t trial, int64_t replica) const;
  /// Job that tests the replica of the best trial; empty if there is none.
  const std::string& TestJobOf(int64_t replica) const;
  /// Whether the replica of the best trial is being tested.
  bool IsTested(int64_t replica) const;

  /// The sweep with its trials.
  v1::Sweep ToProto() const;

 private:
  // Feeds an event to the search; notes the points, peers and tests of trials.
  sweep::Search::Decisions Feed(const v1::SweepEvent& event);
  // Called when all trials have ended: begins the test of the best trial, if
  // there is to be one and was none; otherwise the sweep is done.
  void Finish(const SpecLimits& limits, SweepStep& step);
  void BeginTest(const SpecLimits& limits, int64_t trial, SweepStep& step);
  // Interrupts, continues or cancels the tests that have not ended.
  void ChangeTests(v1::SweepState state, SweepStep& step) const;
  // Adds a decision to its event, and its effect to the step. Returns the error
  // for which a trial cannot begin.
  absl::Status Note(const SpecLimits& limits, const sweep::Decision& decision,
                    v1::SweepEvent& event, SweepStep& step);
  void NoteTestJob(uint32_t replica, const std::string& id);
  // Updates the summary from the search.
  void Summarize();
  v1::Trial TrialToProto(int64_t trial) const;
  // The trial itself, or the trial whose result it takes.
  int64_t TrainedFor(int64_t trial) const {
    return search_.OriginalOf(trial).value_or(trial);
  }
  // Mean over the replicas; nullopt unless all were tested.
  std::optional<double> TestMetricOf(int64_t trial) const;

  v1::Sweep summary_;
  sweep::Search search_;
  std::vector<sweep::Point> points_;
  // ResultKey of the first trials, as far as OriginalOf has needed the keys.
  std::vector<std::string> keys_;
  // Trials that a user stopped, or that failed in a way that need not repeat:
  // an equal trial may end differently.
  std::set<int64_t> cut_short_;
  // Job ids by trial and replica, of the trials that have begun.
  std::vector<std::vector<std::string>> jobs_;
  // Trials that shared the last pass of each trial.
  std::map<int64_t, std::set<uint32_t>> peers_;
  // Results of tests, by trial and replica.
  std::map<std::pair<int64_t, int64_t>, double> test_metrics_;
  // The best trial, once its test has begun or proved impossible; its test
  // jobs, by replica; the replicas whose tests have not ended.
  std::optional<int64_t> tested_trial_;
  std::vector<std::string> test_jobs_;
  std::set<int64_t> tests_;
  std::string test_fault_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SWEEPS_LIVE_SWEEP_H_
