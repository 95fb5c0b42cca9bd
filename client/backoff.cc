#include "client/backoff.h"

#include <algorithm>

#include "absl/synchronization/notification.h"

namespace hearth::client {

Backoff::Backoff(absl::Duration first, absl::Duration patience)
    : first_(first), patience_(patience) {
  Reset();
}

void Backoff::Reset() {
  next_ = first_;
  paused_ = absl::ZeroDuration();
}

bool Backoff::Pause(const std::stop_token& stop) {
  if (stop.stop_requested() || paused_ + next_ > patience_) return false;
  absl::Notification stopped;
  bool interrupted = false;
  {
    const std::stop_callback wake(stop, [&stopped] { stopped.Notify(); });
    interrupted = stopped.WaitForNotificationWithTimeout(next_);
  }
  paused_ += next_;
  next_ = std::min(2 * next_, 20 * first_);
  return !interrupted;
}

}  // namespace hearth::client
