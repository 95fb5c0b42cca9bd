#ifndef HEARTH_SERVER_JOBS_RETIRED_SERIES_H_
#define HEARTH_SERVER_JOBS_RETIRED_SERIES_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "engine/metrics/registry.h"

namespace hearth::server {

/// Keeps the time series of ended jobs a while longer, so that the last figures
/// are scraped, and then drops them. However fast jobs end, only those of the
/// last ones are kept, so that series labelled by job stay bounded. Drops are
/// due when metrics are collected or series are added: nobody else could see
/// the difference. Thread-safe.
class RetiredSeries {
 public:
  static constexpr double kLifetimeSeconds = 15 * 60;
  /// Most jobs whose series are kept.
  static constexpr size_t kMaxJobs = 100;

  /// Both must outlive this.
  RetiredSeries(metrics::Registry& registry, const Clock& clock);

  /// Takes over the owner of a job's series.
  void Add(std::shared_ptr<void> series) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void DropExpired() ABSL_LOCKS_EXCLUDED(mutex_);

  const Clock& clock_;
  absl::Mutex mutex_;
  // With the time on the steady clock at which each goes, ascending.
  std::deque<std::pair<double, std::shared_ptr<void>>> series_
      ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<metrics::CollectHook> hook_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_RETIRED_SERIES_H_
