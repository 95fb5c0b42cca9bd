#include "engine/job/interface/job_environment.h"

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

}  // namespace hearth::job
