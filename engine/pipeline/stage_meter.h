#ifndef HEARTH_ENGINE_PIPELINE_STAGE_METER_H_
#define HEARTH_ENGINE_PIPELINE_STAGE_METER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"

namespace hearth::pipeline {

/// The present activity of a stage's thread.
enum class Activity {
  kAbsent,   // Not started, or ended.
  kStarved,  // Waits for an item.
  kBusy,     // Works on one.
  kBlocked,  // Waits for a place in the next queue.
};

/// Measures where the time of one stage's threads goes. Every moment between a
/// thread's first and last switch counts for exactly one activity, the current
/// one included whenever the totals are read. Thread-safe.
class StageMeter {
 public:
  /// Seconds over all threads, and items finished.
  struct Totals {
    double starved_seconds = 0;
    double busy_seconds = 0;
    double blocked_seconds = 0;
    int64_t items = 0;
  };

  StageMeter(int threads, const Clock& clock)
      : clock_(clock), threads_(threads) {}

  /// `thread` now does `activity`.
  void Switch(int thread, Activity activity) ABSL_LOCKS_EXCLUDED(mutex_);

  void CountItem() ABSL_LOCKS_EXCLUDED(mutex_);

  Totals Read() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Thread {
    Activity activity = Activity::kAbsent;
    double since = 0;
  };
  using Seconds = std::array<double, 4>;  // By Activity.

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
  Seconds seconds_ ABSL_GUARDED_BY(mutex_) = {};
  int64_t items_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::pipeline

#endif  // HEARTH_ENGINE_PIPELINE_STAGE_METER_H_
