#ifndef HEARTH_ENGINE_BASE_MANUAL_CLOCK_H_
#define HEARTH_ENGINE_BASE_MANUAL_CLOCK_H_

#include <atomic>

#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace hearth {

/// For tests: a clock whose steady time stands still until the test moves it,
/// and whose wall time is always 1970-01-01. Thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(double start_seconds = 1000) : seconds(start_seconds) {}

  absl::Time Now() const override { return absl::UnixEpoch(); }
  double SteadySeconds() const override { return seconds; }
  void Advance(double more_seconds) { seconds = seconds + more_seconds; }

  std::atomic<double> seconds;
};

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_MANUAL_CLOCK_H_
