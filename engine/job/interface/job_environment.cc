#include "engine/job/interface/job_environment.h"

#include <utility>

#include "engine/base/status.h"

namespace hearth::job {

RunningJobs::Job::Job(RunningJobs& jobs) : jobs_(jobs) {
  absl::MutexLock lock(&jobs_.mutex_);
  ++jobs_.running_;
  ++jobs_.started_;
}

RunningJobs::Job::~Job() {
  absl::MutexLock lock(&jobs_.mutex_);
  --jobs_.running_;
}

RunningJobs::Moment RunningJobs::Now() const {
  absl::MutexLock lock(&mutex_);
  return {running_, started_};
}

bool RunningJobs::AloneSince(const Moment& moment) const {
  absl::MutexLock lock(&mutex_);
  return moment.running == 1 && started_ == moment.started;
}

absl::StatusOr<machine::DiskProfile> ProfileOf(
    const JobEnvironment& environment, const store::Dataset& dataset,
    std::stop_token stop, absl::Duration fresh) {
  // A shard is scanned at the speed of the slowest of disks and network.
  if (environment.disks == nullptr || dataset.manifest().is_sharded()) {
    return machine::DiskProfile::Assumed();
  }
  HEARTH_ASSIGN_OR_RETURN(const store::StoredFeatures features,
                          dataset.OpenFeatures({}));
  MemoryLedger::Reservation reservation;
  strategy::MemoryEstimate measuring;
  measuring.Add("measuring", machine::kProfileBytes);
  return environment.disks->Find(
      {.file = features.LargestFile().path(),
       .folder = environment.plans.options().folder},
      [&] {
        return environment.running_jobs.Now().running <= 1 &&
               environment.memory.Reserve(measuring, reservation).ok();
      },
      std::move(stop), fresh);
}

void NoteScan(const JobEnvironment& environment, const store::Dataset& dataset,
              double bytes_per_second) {
  if (environment.disks == nullptr || dataset.manifest().is_sharded()) return;
  const auto features = dataset.OpenFeatures({});
  if (!features.ok()) return;
  environment.disks->NoteScan(features->LargestFile().path(), bytes_per_second);
}

}  // namespace hearth::job
