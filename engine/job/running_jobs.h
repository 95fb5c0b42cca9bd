#ifndef HEARTH_ENGINE_JOB_RUNNING_JOBS_H_
#define HEARTH_ENGINE_JOB_RUNNING_JOBS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace hearth::job {

/// Counts the jobs that run in this process, so that figures of the whole
/// process (/proc/self/io) are given to a job only if it ran alone.
/// Thread-safe.
class RunningJobs {
 public:
  /// A running job; counted until destroyed.
  class Job {
   public:
    explicit Job(RunningJobs& jobs);
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

   private:
    RunningJobs& jobs_;
  };

  /// A moment, to ask AloneSince about later.
  struct Moment {
    int running;
    uint64_t started;
  };
  Moment Now() const;

  /// Whether exactly one job ran all the time since `moment`.
  bool AloneSince(const Moment& moment) const;

 private:
  mutable absl::Mutex mutex_;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  // Jobs that ever began.
  uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_RUNNING_JOBS_H_
