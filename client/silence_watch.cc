#include "client/silence_watch.h"

#include <utility>

namespace hearth::client {

SilenceWatch::SilenceWatch(absl::Duration limit, Notice notice,
                           const Clock& clock)
    : limit_(limit), notice_(std::move(notice)), clock_(clock) {
  if (notice_) thread_ = std::jthread([this] { Work(); });
}

SilenceWatch::~SilenceWatch() {
  absl::MutexLock lock(&mutex_);
  exiting_ = true;
  changed_.Signal();
}

void SilenceWatch::Heard() {
  absl::MutexLock lock(&mutex_);
  silent_since_.reset();
  if (std::exchange(told_, false)) notice_(absl::ZeroDuration());
}

void SilenceWatch::Lost(absl::Duration before) {
  absl::MutexLock lock(&mutex_);
  if (silent_since_.has_value()) return;
  silent_since_ = clock_.SteadySeconds() - absl::ToDoubleSeconds(before);
  changed_.Signal();
}

void SilenceWatch::Work() {
  absl::MutexLock lock(&mutex_);
  while (!exiting_) {
    if (!silent_since_.has_value() || told_) {
      changed_.Wait(&mutex_);
      continue;
    }
    const absl::Duration silent =
        absl::Seconds(clock_.SteadySeconds() - *silent_since_);
    if (silent < limit_) {
      changed_.WaitWithTimeout(&mutex_, limit_ - silent);
      continue;
    }
    told_ = true;
    notice_(silent);
  }
}

}  // namespace hearth::client
