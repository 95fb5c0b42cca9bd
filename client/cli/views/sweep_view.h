#ifndef HEARTH_CLIENT_CLI_VIEWS_SWEEP_VIEW_H_
#define HEARTH_CLIENT_CLI_VIEWS_SWEEP_VIEW_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hearth/v1/sweeps.pb.h"

namespace hearth::cli {

/// The epochs of a sweep, from its events. Single-owner.
class SweepHistory {
 public:
  /// Takes the events in order.
  void Add(const v1::SweepEvent& event);

  /// All results, in the order in which they came.
  const std::vector<v1::EpochResult>& results() const { return results_; }

  /// The mean over replicas of what a trial is judged by, epoch by epoch, as
  /// far as all that reported have come; without values that are not there.
  std::vector<double> CurveOf(uint32_t trial) const;

 private:
  std::vector<v1::EpochResult> results_;
  std::string metric_;
  // Values of each replica of each trial.
  std::map<uint32_t, std::map<uint32_t, std::vector<double>>> values_;
};

/// "running", "done".
std::string StateWord(v1::SweepState state);
std::string StateWord(v1::TrialState state);

/// That trials are all points of the space. REQUIRES: spec.every_point().
std::string EveryPointLine(const v1::SweepSpec& spec);

/// One line a sweep.
void PrintSweepList(const std::vector<v1::Sweep>& sweeps, std::ostream& out);

/// The leader, and a table of the trials by number, or, with `most` > 0, of the
/// best `most` and those that run. The column "convoy" has the trials with
/// which one shared its last pass; a trial that takes the result of an equal
/// one is not in the latter table.
void PrintSweep(const v1::Sweep& sweep, const SweepHistory& history,
                std::ostream& out, size_t most = 0);

/// One trial: parameters, result and job.
void PrintTrial(const v1::Sweep& sweep, const v1::Trial& trial,
                std::ostream& out);

/// A line of CSV for each epoch of each job, below a head line.
void WriteCsv(const v1::Sweep& sweep, const SweepHistory& history,
              std::ostream& out);

/// What a sweep's events tell people: a line for each trial that has ended, and
/// for those that are the same as an earlier one. Single-owner.
class SweepLog {
 public:
  /// The lines of the next event, in order; none for most events.
  std::vector<std::string> Take(const v1::SweepEvent& event);

 private:
  void NoteEqual(uint32_t trial, uint32_t same_as);
  // "trial 3" or "trial 3, and 5, 7-9 with it,".
  std::string Subject(uint32_t trial) const;

  // By trial: replicas that have begun, and those that have succeeded.
  std::map<uint32_t, std::set<uint32_t>> begun_;
  std::map<uint32_t, std::set<uint32_t>> succeeded_;
  // By trial: the later trials that take its result.
  std::map<uint32_t, std::vector<uint32_t>> equal_;
};

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_SWEEP_VIEW_H_
