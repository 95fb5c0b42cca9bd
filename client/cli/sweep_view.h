#ifndef HEARTH_CLIENT_CLI_SWEEP_VIEW_H_
#define HEARTH_CLIENT_CLI_SWEEP_VIEW_H_

#include <cstdint>
#include <map>
#include <ostream>
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

/// One line a sweep.
void PrintSweepList(const std::vector<v1::Sweep>& sweeps, std::ostream& out);

/// The leader, and a table of the trials by number, or, with `most` > 0, of the
/// best `most` and those that run. The column "convoy" has the trials with
/// which one shared its last pass.
void PrintSweep(const v1::Sweep& sweep, const SweepHistory& history,
                std::ostream& out, size_t most = 0);

/// One trial: parameters, result and job.
void PrintTrial(const v1::Sweep& sweep, const v1::Trial& trial,
                std::ostream& out);

/// A line of CSV for each epoch of each job, below a head line.
void WriteCsv(const v1::Sweep& sweep, const SweepHistory& history,
              std::ostream& out);

/// "trial 3 stopped: ..."; lines for people, none for most events.
std::vector<std::string> LinesOf(const v1::SweepEvent& event);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_SWEEP_VIEW_H_
