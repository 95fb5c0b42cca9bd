#ifndef HEARTH_ENGINE_JOB_CONVOYS_H_
#define HEARTH_ENGINE_JOB_CONVOYS_H_

#include <list>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/job/convoy.h"
#include "engine/job/report.h"
#include "engine/metrics/registry.h"

namespace hearth::job {

/// The convoys of this process: train jobs with equal data share their passes.
/// Thread-safe.
class Convoys {
 public:
  /// `registry` outlives this; null = no time series.
  Convoys(ConvoyOptions options, metrics::Registry* registry);
  Convoys(const Convoys&) = delete;
  Convoys& operator=(const Convoys&) = delete;

  /// The convoy under way that has room for a job, as Expect; null = none.
  const void* RoomFor(const Boarding& job) const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Holds a place for a job that will be taken along, once: in a convoy that
  /// is under way, or, if it may begin one, in one of its own. What tells the
  /// convoy from others as long as it is there; null = there is no place.
  const void* Expect(const Boarding& job, bool may_begin = true)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The job has ended, taken along or not. Nothing happens to one that was not
  /// expected.
  void Forget(const std::string& job) ABSL_LOCKS_EXCLUDED(mutex_);

  /// ConvoyOptions::max_members.
  int max_members() const { return options_.max_members; }

  /// No job that is expected comes: nobody waits for them any more.
  void ForgetAll() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until all convoys have ended, with their threads. REQUIRES: all
  /// calls of Take have returned, and no others come.
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes a job along (Convoy::Take); one that was not expected in a convoy of
  /// its own.
  absl::StatusOr<TrainReport> Take(const Ride& ride)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const ConvoyOptions options_;
  const std::unique_ptr<ConvoyMetrics> metrics_;
  mutable absl::Mutex mutex_;
  // Those that are over go when the next one begins.
  std::list<std::shared_ptr<Convoy>> convoys_ ABSL_GUARDED_BY(mutex_);
  // The convoy of each job that is expected or on board.
  std::map<std::string, std::shared_ptr<Convoy>> of_jobs_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_CONVOYS_H_
