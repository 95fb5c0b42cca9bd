#ifndef HEARTH_ENGINE_JOB_AHEAD_PREPARATION_H_
#define HEARTH_ENGINE_JOB_AHEAD_PREPARATION_H_

#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// Strategy::PrepareAhead on a thread of its own, which starts at once. Stops
/// and ends with this object. Thread-safe.
class AheadPreparation {
 public:
  /// `strategy` outlives it, and what the passes point to.
  AheadPreparation(strategy::Strategy& strategy,
                   std::vector<strategy::Pass> passes);
  AheadPreparation(const AheadPreparation&) = delete;
  AheadPreparation& operator=(const AheadPreparation&) = delete;

  /// What it had to say since the last call.
  std::vector<std::string> TakeLog() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits for its end; a requested `stop` makes that come soon. Call once.
  absl::StatusOr<strategy::PreparationReport> Finish(
      const std::stop_token& stop);

 private:
  absl::Mutex mutex_;
  std::vector<std::string> log_ ABSL_GUARDED_BY(mutex_);
  // The thread's until it has ended.
  absl::StatusOr<strategy::PreparationReport> report_;
  // Ends first.
  std::jthread thread_;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_AHEAD_PREPARATION_H_
