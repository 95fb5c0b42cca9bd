#ifndef HEARTH_CLIENT_CLI_VIEWS_PROGRESS_H_
#define HEARTH_CLIENT_CLI_VIEWS_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "hearth/v1/jobs.pb.h"

namespace hearth::cli {

/// Estimate of a job's rate and remaining time, from its Progress events and
/// the daemon's times on them, so that it is right for a watch that starts late
/// or replays old events. Single-owner.
class ProgressEstimate {
 public:
  /// Takes the next event. `time`: seconds since any fixed moment.
  void Add(const v1::Progress& progress, double time);

  /// Share of the phase that is done; nullopt if its total is unknown.
  std::optional<double> fraction() const;

  /// Units a second, mostly of the last ten seconds of this phase.
  std::optional<double> rate() const { return rate_; }

  /// Seconds to the end of all epochs, with their validation, or to the end of
  /// a phase outside training.
  std::optional<double> remaining_seconds() const;

 private:
  // Share of all epochs, or of a phase outside training, that is done.
  std::optional<double> WholeFraction() const;

  v1::Progress now_;
  double time_ = 0;
  std::optional<double> rate_;
  // Share and time at which the estimate starts.
  std::optional<double> start_fraction_;
  double start_time_ = 0;
};

/// Display of a job's events for somebody who waits. Single-owner.
class ProgressDisplay {
 public:
  virtual ~ProgressDisplay() = default;

  /// Shows one event; a job's events come in order.
  virtual void Show(const v1::JobEvent& event) = 0;

  /// Erases the live line. To be called before anything else is written.
  virtual void Clear() = 0;
};

/// Unit of Progress events; events of packing always count bytes.
enum class ProgressUnit { kBatches, kBytes };

/// Display for a terminal: a live line, below lasting lines of states, epochs
/// and warnings. `columns` returns the terminal's current width.
std::unique_ptr<ProgressDisplay> NewLiveProgress(std::ostream& out,
                                                 ProgressUnit unit,
                                                 std::function<int()> columns);

/// Display for a file or a pipe: a line for each state, phase, epoch and
/// warning.
std::unique_ptr<ProgressDisplay> NewPlainProgress(std::ostream& out);

/// Display that shows nothing.
std::unique_ptr<ProgressDisplay> NewNoProgress();

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_PROGRESS_H_
