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

/// How fast a job is and how long it will take, from its Progress events and
/// the daemon's times on them, so that a watch that starts late, or replays
/// old events, estimates right. Single-owner.
class ProgressEstimate {
 public:
  /// Takes the next event; `time` in seconds since any fixed moment.
  void Add(const v1::Progress& progress, double time);

  /// Share of the phase that is done; nothing where its total is unknown.
  std::optional<double> fraction() const;

  /// Units a second over the last ten seconds or so of this phase.
  std::optional<double> rate() const { return rate_; }

  /// Seconds to the end of all epochs (other phases, of which validation takes
  /// its share of the past time, included), or of a phase outside training.
  std::optional<double> remaining_seconds() const;

 private:
  // Share of the whole training (or phase) that is done.
  std::optional<double> WholeFraction() const;

  v1::Progress now_;
  double time_ = 0;
  std::optional<double> rate_;
  // Where the estimate of the whole starts.
  std::optional<double> start_fraction_;
  double start_time_ = 0;
};

/// Shows a job's events to somebody who waits. Single-owner.
class ProgressDisplay {
 public:
  virtual ~ProgressDisplay() = default;

  /// Shows one event; a job's events come in order.
  virtual void Show(const v1::JobEvent& event) = 0;

  /// Takes away what is not to stay. Call before anything else is written.
  virtual void Clear() = 0;
};

/// The unit of the figures of Progress events, unless their phase is packing,
/// which counts bytes.
enum class ProgressUnit { kBatches, kBytes };

/// One line that is written over again and again, below the lines of what has
/// happened: for a terminal. `columns` gives its width now.
std::unique_ptr<ProgressDisplay> NewLiveProgress(std::ostream& out,
                                                 ProgressUnit unit,
                                                 std::function<int()> columns);

/// A line for each state, phase, epoch and warning: for a file or a pipe.
std::unique_ptr<ProgressDisplay> NewPlainProgress(std::ostream& out);

/// Shows nothing.
std::unique_ptr<ProgressDisplay> NewNoProgress();

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_PROGRESS_H_
