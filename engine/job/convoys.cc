#include "engine/job/convoys.h"

#include <algorithm>
#include <utility>

namespace hearth::job {

Convoys::Convoys(ConvoyOptions options, metrics::Registry* registry)
    : options_(std::move(options)),
      metrics_(registry == nullptr
                   ? nullptr
                   : std::make_unique<ConvoyMetrics>(*registry)) {}

bool Convoys::HasRoomFor(const Boarding& job) const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(convoys_.begin(), convoys_.end(),
                     [&](const std::shared_ptr<Convoy>& convoy) {
                       return convoy->name() == job.convoy &&
                              convoy->HasRoomFor(job);
                     });
}

const void* Convoys::Expect(const Boarding& job, bool may_begin) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = of_jobs_.find(job.job); found != of_jobs_.end()) {
    return found->second.get();
  }
  for (const std::shared_ptr<Convoy>& convoy : convoys_) {
    if (convoy->name() == job.convoy && convoy->Expect(job)) {
      of_jobs_[job.job] = convoy;
      return convoy.get();
    }
  }
  if (!may_begin) return nullptr;
  convoys_.remove_if([](const auto& convoy) { return convoy->IsOver(); });
  const std::shared_ptr<Convoy>& convoy = convoys_.emplace_back(
      std::make_shared<Convoy>(options_, job.convoy, metrics_.get()));
  convoy->Expect(job);
  of_jobs_[job.job] = convoy;
  return convoy.get();
}

void Convoys::Forget(const std::string& job) {
  std::shared_ptr<Convoy> convoy;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_jobs_.find(job);
    if (found == of_jobs_.end()) return;
    convoy = std::move(found->second);
    of_jobs_.erase(found);
  }
  convoy->Forget(job);
}

absl::StatusOr<TrainReport> Convoys::Take(const std::string& job,
                                          const Ride& ride) {
  std::shared_ptr<Convoy> convoy;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_jobs_.find(job);
    if (found != of_jobs_.end()) convoy = found->second;
  }
  if (convoy == nullptr) {
    Expect({.job = job, .convoy = ride.options.convoy, .epoch = {}});
    return Take(job, ride);
  }
  return convoy->Take(job, ride);
}

}  // namespace hearth::job
