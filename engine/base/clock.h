#ifndef HEARTH_ENGINE_BASE_CLOCK_H_
#define HEARTH_ENGINE_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace hearth {

/// The source of time, so that tests can make it. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  /// The wall clock: for display only, it may jump.
  virtual absl::Time Now() const = 0;

  /// Seconds on the steady clock: for durations and deadlines.
  virtual double SteadySeconds() const = 0;

  /// The machine's clock.
  static const Clock& Real();
};

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_CLOCK_H_
