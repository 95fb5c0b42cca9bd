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

/// Epochs of a sweep, from its events. Single-owner.
class SweepHistory {
 public:
  /// Takes the next event.
  void Add(const v1::SweepEvent& event);

  /// All results, in the order of their events.
  const std::vector<v1::EpochResult>& results() const { return results_; }

  /// Mean over a trial's replicas of the value that judges it, by epoch, up to
  /// the last epoch that all replicas with results have. Missing values are
  /// left out.
  std::vector<double> CurveOf(uint32_t trial) const;

 private:
  std::vector<v1::EpochResult> results_;
  std::string metric_;
  // Values by trial, replica and epoch.
  std::map<uint32_t, std::map<uint32_t, std::vector<double>>> values_;
};

/// A sweep's state in a word: "running", "done".
std::string StateWord(v1::SweepState state);
std::string StateWord(v1::TrialState state);

/// The line that tells that the trials are all points of the space. REQUIRES:
/// spec.every_point().
std::string EveryPointLine(const v1::SweepSpec& spec);

/// Prints a line for each sweep.
void PrintSweepList(const std::vector<v1::Sweep>& sweeps, std::ostream& out);

/// Prints the leader and a table of all trials by number or, with `most` > 0,
/// of the best `most` trials and the running ones, without trials that take the
/// result of an equal one. The column "convoy" has the trials that shared the
/// trial's last pass.
void PrintSweep(const v1::Sweep& sweep, const SweepHistory& history,
                std::ostream& out, size_t most = 0);

/// Prints one trial: parameters, result and job.
void PrintTrial(const v1::Sweep& sweep, const v1::Trial& trial,
                std::ostream& out);

/// Writes CSV: a head line, and a line for each epoch of each job.
void WriteCsv(const v1::Sweep& sweep, const SweepHistory& history,
              std::ostream& out);

/// Log of a sweep for people: a line for each trial that has ended, and for
/// each trial that is the same as an earlier one. Single-owner.
class SweepLog {
 public:
  /// Takes the next event; returns its lines, none for most events.
  std::vector<std::string> Take(const v1::SweepEvent& event);

 private:
  void NoteEqual(uint32_t trial, uint32_t same_as);
  // A trial and the trials that take its result: "trial 3", "trial 3, and 5,
  // 7-9 with it,".
  std::string Subject(uint32_t trial) const;

  // Replicas that have begun, and that have succeeded, by trial.
  std::map<uint32_t, std::set<uint32_t>> begun_;
  std::map<uint32_t, std::set<uint32_t>> succeeded_;
  // Later trials that take a trial's result, by trial.
  std::map<uint32_t, std::vector<uint32_t>> equal_;
};

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_SWEEP_VIEW_H_
