#include "engine/job/convoys.h"

#include <memory>
#include <utility>

namespace hearth::job {

Convoys::Convoys(ConvoyOptions options, metrics::Registry* registry)
    : options_(std::move(options)),
      metrics_(registry == nullptr
                   ? nullptr
                   : std::make_unique<ConvoyMetrics>(*registry)) {}

const void* Convoys::RoomFor(const Boarding& job) const {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Convoy>& convoy : convoys_) {
    if (convoy->name() == job.convoy && convoy->HasRoomFor(job)) {
      return convoy.get();
    }
  }
  return nullptr;
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

void Convoys::ForgetAll() {
  absl::MutexLock lock(&mutex_);
  for (const std::shared_ptr<Convoy>& convoy : convoys_) convoy->ForgetAll();
}

void Convoys::AwaitEnd() {
  absl::MutexLock lock(&mutex_);
  of_jobs_.clear();
  // Their threads end before they do.
  convoys_.clear();
}

absl::StatusOr<TrainReport> Convoys::Take(const Ride& ride) {
  const std::string& job = ride.options.name;
  std::shared_ptr<Convoy> convoy;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = of_jobs_.find(job);
    if (found != of_jobs_.end()) convoy = found->second;
  }
  if (convoy == nullptr) {
    Expect({.job = job, .convoy = ride.options.convoy, .epoch = {}});
    return Take(ride);
  }
  RideEnd end = convoy->Take(ride);
  if (!end.alone.has_value() || ride.stop.stop_requested()) {
    return std::move(end.result);
  }
  {
    absl::MutexLock lock(&mutex_);
    convoy = std::make_shared<Convoy>(options_, /*name=*/"", metrics_.get());
    of_jobs_[job] = convoy;
  }
  return convoy
      ->Take({.environment = ride.environment,
              .options = *end.alone,
              .observer = ride.observer,
              .metrics = ride.metrics,
              .memory = ride.memory,
              .stop = ride.stop,
              .begin_seconds = ride.begin_seconds,
              .is_running = true,
              .first_batch_seconds = end.first_batch_seconds,
              .company = std::move(end.company)})
      .result;
}

}  // namespace hearth::job
