#ifndef HEARTH_ENGINE_BASE_CLOCK_H_
#define HEARTH_ENGINE_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace hearth {

/// Source of time, which tests replace. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  /// Wall clock, which may jump: for display only.
  virtual absl::Time Now() const = 0;

  /// Steady clock, in seconds: for durations and deadlines.
  virtual double SteadySeconds() const = 0;

  /// The machine's clock.
  static const Clock& Real();
};

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_CLOCK_H_
