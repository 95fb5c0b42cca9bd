#include "server/jobs/retired_series.h"

namespace hearth::server {

RetiredSeries::RetiredSeries(metrics::Registry& registry, const Clock& clock)
    : clock_(clock),
      hook_(registry.NewCollectHook([this] { DropExpired(); })) {}

void RetiredSeries::Add(std::shared_ptr<void> series) {
  DropExpired();
  absl::MutexLock lock(&mutex_);
  series_.emplace_back(clock_.SteadySeconds() + kLifetimeSeconds,
                       std::move(series));
  if (series_.size() > kMaxJobs) series_.pop_front();
}

void RetiredSeries::DropExpired() {
  absl::MutexLock lock(&mutex_);
  const double now = clock_.SteadySeconds();
  while (!series_.empty() && series_.front().first <= now) series_.pop_front();
}

}  // namespace hearth::server
