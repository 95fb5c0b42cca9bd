#ifndef HEARTH_ENGINE_JOB_INTERFACE_OBSERVER_H_
#define HEARTH_ENGINE_JOB_INTERFACE_OBSERVER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/job/interface/report.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// The progress of a job.
struct Progress {
  /// Present work: "training", "validating", "testing", "features", ...
  std::string phase;
  /// Batches or bytes of this phase: done, and in all (0 = unknown).
  uint64_t done = 0;
  uint64_t total = 0;
  /// Epoch, from 1, and number of epochs; 0 outside training.
  uint32_t epoch = 0;
  uint32_t epochs = 0;
  /// Loss of the last training batch; absent outside training.
  std::optional<double> loss;
};

enum class Severity { kInfo, kWarning, kError };

/// Listener to a running job. Called from one thread at a time; must not block
/// for long.
class Observer {
 public:
  virtual ~Observer() = default;

  /// The job has everything it needs and starts its work: PREPARING is over.
  virtual void OnRunning() = 0;

  /// The job starts with the next epoch of a group of jobs: from now on `key`
  /// is its first_epoch_key, which the observer must store durably. An error
  /// ends the job.
  virtual absl::Status OnFirstEpochKey(int64_t key) = 0;

  /// Called for every batch or block: the observer drops surplus calls.
  virtual void OnProgress(const Progress& progress) = 0;

  /// An epoch is over, including validation. The report is kept nowhere else. A
  /// resumed job repeats the last report, and reports of epochs that it trains
  /// again. An error ends the job.
  virtual absl::Status OnEpoch(const EpochReport& epoch) = 0;

  /// Durable work was done from which another run of the job continues: a
  /// checkpoint, a part of a plan.
  virtual void OnDurable() = 0;

  /// A line for the job's log.
  virtual void OnLog(Severity severity, const std::string& text) = 0;
};

/// Listener that passes a preparation's log and progress to `observer`, which
/// outlives it.
strategy::PreparationListener ListenFor(Observer& observer);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_INTERFACE_OBSERVER_H_
