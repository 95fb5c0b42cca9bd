#ifndef HEARTH_TESTS_CONFORMANCE_STOPPING_CLOCK_H_
#define HEARTH_TESTS_CONFORMANCE_STOPPING_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <stop_token>

#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace hearth::testing {

/// A clock on which a stop is requested at the nth look. A pipeline looks
/// whenever one of its threads begins or ends to wait or to work, so stops
/// reach every stage in every state.
class StoppingClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  double SteadySeconds() const override {
    if (looks_++ == stop_at_) stop_->request_stop();
    return Clock::Real().SteadySeconds();
  }
  void StopAt(int64_t look, std::stop_source& stop) {
    looks_ = 0;
    stop_at_ = look;
    stop_ = &stop;
  }
  int64_t looks() const { return looks_; }

 private:
  mutable std::atomic<int64_t> looks_ = 0;
  int64_t stop_at_ = -1;
  std::stop_source* stop_ = nullptr;
};

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_STOPPING_CLOCK_H_
