#ifndef HEARTH_CLIENT_CLI_PROGRESS_H_
#define HEARTH_CLIENT_CLI_PROGRESS_H_

#include <functional>
#include <memory>
#include <ostream>

#include "hearth/v1/jobs.pb.h"

namespace hearth::cli {

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

#endif  // HEARTH_CLIENT_CLI_PROGRESS_H_
