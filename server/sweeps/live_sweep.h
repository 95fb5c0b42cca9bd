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

namespace hearth::server {

/// The order in which the trials of a sweep train on their data, by what
/// exists: first the data whose plans are there, then those that jobs have
/// trained on lately, so that rows may still be in memory, then the others,
/// from the nearest on by batch size and fan-outs. `data` has a validated spec
/// for each; `jobs` are those that have succeeded, the newest first; `has_plan`
/// tells whether the plan of a name can be used. Gives indices in `data`.
std::vector<uint32_t> OrderOfData(
    absl::Span<const v1::TrainJobSpec> data, absl::Span<const v1::Job> jobs,
    absl::FunctionRef<bool(const std::string& plan)> has_plan);

/// One sweep in memory: its search, fed with the contract's events, and the
/// jobs of its trials. Trials are numbered as the search does, from 0.
/// Thread-compatible.
class LiveSweep {
 public:
  /// A sweep before its first event. `summary` has its validated spec.
  explicit LiveSweep(const v1::Sweep& summary);

  /// The sweep of this id as it is in the store, rebuilt from its events.
  static absl::StatusOr<std::unique_ptr<LiveSweep>> Load(SweepStore& store,
                                                         const std::string& id);

  /// Feeds an event to the search, adds the decisions that follow to it, and
  /// gives the step that stores all of it, but for a job's epoch. What the step
  /// stores is for Stored to note. A trial whose job this machine cannot run
  /// fails.
  SweepStep Apply(const SpecLimits& limits, const v1::SweepEvent& event);

  /// Notes that a step is stored, and the ids of its new jobs.
  void Stored(const SweepStep& step, const std::vector<std::string>& ids);

  const sweep::Search& search() const { return search_; }
  const v1::Sweep& summary() const { return summary_; }
  const sweep::Point& point(int64_t trial) const {
    return points_[static_cast<size_t>(trial)];
  }
  /// The earlier trial whose result a new one at `point` takes: one with an
  /// equal job that trains, or has a result that it would have again. Nothing
  /// if there is none.
  std::optional<int64_t> OriginalOf(const SpecLimits& limits,
                                    const sweep::Point& point);

  /// The replica's job; empty before it begins.
  const std::string& JobOf(int64_t trial, int64_t replica) const;
  /// The job that tests the replica of the best trial; empty if there is none.
  const std::string& TestJobOf(int64_t replica) const;
  /// Whether the replica of the best trial is being tested.
  bool IsTested(int64_t replica) const;

  /// The sweep with its trials.
  v1::Sweep ToProto() const;

 private:
  // Feeds an event to the search; the points, the company and the tests of
  // trials are noted, too.
  sweep::Search::Decisions Feed(const v1::SweepEvent& event);
  // All trials have ended: tests the best one, if that is to be and has not
  // been; then the sweep is done.
  void Finish(const SpecLimits& limits, SweepStep& step);
  void BeginTest(const SpecLimits& limits, int64_t trial, SweepStep& step);
  // The tests that have not ended are interrupted, go on, or are cancelled.
  void ChangeTests(v1::SweepState state, SweepStep& step) const;
  // Adds a decision to its event, and its effect to the step. The error for
  // which a trial cannot begin.
  absl::Status Note(const SpecLimits& limits, const sweep::Decision& decision,
                    v1::SweepEvent& event, SweepStep& step);
  void NoteTestJob(uint32_t replica, const std::string& id);
  // The summary as the search is now.
  void Summarize();
  v1::Trial TrialToProto(int64_t trial) const;
  // The trial, or the one whose result it takes.
  int64_t TrainedFor(int64_t trial) const {
    return search_.OriginalOf(trial).value_or(trial);
  }
  // The mean over replicas; nothing unless all were tested.
  std::optional<double> TestMetricOf(int64_t trial) const;

  v1::Sweep summary_;
  sweep::Search search_;
  std::vector<sweep::Point> points_;
  // ResultKey of the first trials, as far as OriginalOf has needed them.
  std::vector<std::string> keys_;
  // Trials that were stopped by somebody, or failed in a way that need not
  // repeat itself: an equal one may end in another way.
  std::set<int64_t> cut_short_;
  // By trial and replica; only as many as have begun.
  std::vector<std::vector<std::string>> jobs_;
  // The trials that had part in the last pass of a trial.
  std::map<int64_t, std::set<uint32_t>> peers_;
  // Results of tests, by trial and replica.
  std::map<std::pair<int64_t, int64_t>, double> test_metrics_;
  // The best trial, once its test has begun, or has proved impossible; by
  // replica: its jobs, and whether they are under way.
  std::optional<int64_t> tested_trial_;
  std::vector<std::string> test_jobs_;
  std::set<int64_t> tests_;
  std::string test_fault_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SWEEPS_LIVE_SWEEP_H_
