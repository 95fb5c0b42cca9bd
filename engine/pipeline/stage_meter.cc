#include "engine/pipeline/stage_meter.h"

namespace hearth::pipeline {

void StageMeter::Switch(int thread, Activity activity) {
  absl::MutexLock lock(&mutex_);
  const double now = clock_.SteadySeconds();
  Thread& state = threads_[thread];
  seconds_[static_cast<int>(state.activity)] += now - state.since;
  state = {.activity = activity, .since = now};
}

void StageMeter::CountItem() {
  absl::MutexLock lock(&mutex_);
  ++items_;
}

StageMeter::Totals StageMeter::Read() const {
  absl::MutexLock lock(&mutex_);
  const double now = clock_.SteadySeconds();
  Seconds seconds = seconds_;
  for (const Thread& thread : threads_) {
    seconds[static_cast<int>(thread.activity)] += now - thread.since;
  }
  return {
      .starved_seconds = seconds[static_cast<int>(Activity::kStarved)],
      .busy_seconds = seconds[static_cast<int>(Activity::kBusy)],
      .blocked_seconds = seconds[static_cast<int>(Activity::kBlocked)],
      .items = items_,
  };
}

}  // namespace hearth::pipeline
