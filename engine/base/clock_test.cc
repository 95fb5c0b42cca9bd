#include "engine/base/clock.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace hearth {
namespace {

TEST(ClockTest, SteadyTimeNeverGoesBack) {
  const Clock& clock = Clock::Real();
  double previous = clock.SteadySeconds();
  for (int i = 0; i < 1000; ++i) {
    const double now = clock.SteadySeconds();
    ASSERT_GE(now, previous);
    previous = now;
  }
}

TEST(ClockTest, TheWallClockIsTheMachines) {
  const absl::Time before = absl::Now();
  const absl::Time now = Clock::Real().Now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, absl::Now());
}

}  // namespace
}  // namespace hearth
