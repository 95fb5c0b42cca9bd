#include "client/backoff.h"

#include <gtest/gtest.h>

#include <thread>

namespace hearth::client {
namespace {

constexpr absl::Duration kShort = absl::Nanoseconds(100);

int Pauses(Backoff& backoff) {
  int pauses = 0;
  while (backoff.Pause(std::stop_token())) ++pauses;
  return pauses;
}

TEST(Backoff, DoublesUntilPatienceEnds) {
  Backoff backoff(kShort, 7 * kShort);
  EXPECT_EQ(Pauses(backoff), 3);  // 1 + 2 + 4
}

TEST(Backoff, StaysAtTwentyTimesTheFirst) {
  Backoff backoff(kShort, (31 + 3 * 20) * kShort);
  EXPECT_EQ(Pauses(backoff), 5 + 3);  // 1 + 2 + 4 + 8 + 16, then 20 each
}

TEST(Backoff, ResetStartsOver) {
  Backoff backoff(kShort, 7 * kShort);
  EXPECT_EQ(Pauses(backoff), 3);
  backoff.Reset();
  EXPECT_EQ(Pauses(backoff), 3);
}

TEST(Backoff, NoPatienceMeansNoPause) {
  Backoff backoff(kShort, absl::ZeroDuration());
  EXPECT_EQ(Pauses(backoff), 0);
}

TEST(Backoff, StopEndsALongPause) {
  Backoff backoff(absl::Hours(1), absl::Hours(2));
  std::stop_source stop;
  std::thread stopper([&stop] { stop.request_stop(); });
  EXPECT_FALSE(backoff.Pause(stop.get_token()));
  stopper.join();
}

}  // namespace
}  // namespace hearth::client
