#ifndef HEARTH_ENGINE_JOB_TRAIN_RUN_H_
#define HEARTH_ENGINE_JOB_TRAIN_RUN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/job/data_run.h"
#include "engine/job/member.h"
#include "engine/job/observer.h"
#include "engine/job/report.h"
#include "engine/job/train_job_options.h"
#include "engine/job/train_metrics.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// Feeds a member from a data run. What each needs of the other goes through
/// here: passes and their figures one way, the member's position the other.
/// Single-owner: belongs to the job's thread. Call one of the two Run methods,
/// once.
class TrainRun {
 public:
  struct Parts {
    const TrainJobOptions& options;
    Observer& observer;
    TrainMetrics& metrics;
    DataRun& data;
    Member& member;
    /// Whether the observer has heard that the job runs.
    bool is_running = false;
  };

  /// All that `parts` refers to outlives this.
  explicit TrainRun(const Parts& parts) : parts_(parts) {}
  TrainRun(const TrainRun&) = delete;
  TrainRun& operator=(const TrainRun&) = delete;

  /// Trains and tests, from where the member is. CANCELLED when a stop was
  /// requested: the member has then written a checkpoint. The strategy is left
  /// to other jobs after success and after a stop; after any other error its
  /// state is unknown and it goes. The report has all but the process's memory.
  absl::StatusOr<TrainReport> Run();

  /// Trains until the first `epochs` epochs are done, without a test, and lets
  /// the strategy go with the data run, so that its memory is free for what
  /// comes next. Errors as Run.
  absl::Status RunFirst(int64_t epochs);

 private:
  absl::Status Start();
  void LogStart();
  absl::StatusOr<TrainReport> TrainAndTest();
  absl::Status RunEpoch();
  absl::Status Train();
  absl::Status Evaluate(const strategy::Pass& pass,
                        strategy::PassReport& report);
  absl::Status RunPass(const strategy::Pass& pass,
                       const strategy::Strategy::Consumer& consumer,
                       strategy::PassReport& report);

  const Parts parts_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_TRAIN_RUN_H_
