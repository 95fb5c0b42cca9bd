#ifndef HEARTH_ENGINE_PIPELINE_OBSERVED_CLOCK_FIXTURE_H_
#define HEARTH_ENGINE_PIPELINE_OBSERVED_CLOCK_FIXTURE_H_

#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace hearth::pipeline {

/// Clock that stands still until Advance, and counts how often each thread has
/// read it. A meter reads the clock whenever a thread changes its activity, so
/// a test can wait until another thread is about to block, without polling.
/// Thread-safe.
class ObservedClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }

  double SteadySeconds() const override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ++reads_[std::this_thread::get_id()];
    read_.SignalAll();
    return seconds_;
  }

  void Advance(double seconds) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    seconds_ += seconds;
  }

  /// Blocks until `thread` has read the clock `count` times.
  void AwaitReads(std::thread::id thread, int count) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (reads_[thread] < count) read_.Wait(&mutex_);
  }

 private:
  mutable absl::Mutex mutex_;
  mutable absl::CondVar read_;
  double seconds_ ABSL_GUARDED_BY(mutex_) = 100;
  mutable std::map<std::thread::id, int> reads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::pipeline

#endif  // HEARTH_ENGINE_PIPELINE_OBSERVED_CLOCK_FIXTURE_H_
