#include "engine/cache/claim_turns.h"

namespace hearth::cache {

ClaimTurns::Turn::~Turn() {
  if (turns_ != nullptr) turns_->Pass();
}

absl::StatusOr<ClaimTurns::Turn> ClaimTurns::Take(int64_t number,
                                                  std::stop_token stop) {
  // Destroyed after the lock, which the callback takes.
  const std::stop_callback on_stop(stop, [this] {
    absl::MutexLock lock(&mutex_);
    passed_.SignalAll();
  });
  absl::MutexLock lock(&mutex_);
  while (taken_ || (order_ == Order::kByNumber && number != next_)) {
    if (stop.stop_requested()) {
      return absl::CancelledError("stopped on request");
    }
    passed_.Wait(&mutex_);
  }
  taken_ = true;
  return Turn(this);
}

void ClaimTurns::Pass() {
  absl::MutexLock lock(&mutex_);
  taken_ = false;
  ++next_;
  passed_.SignalAll();
}

}  // namespace hearth::cache
