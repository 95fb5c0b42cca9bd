#include "engine/job/census.h"

namespace hearth::job {

Census::Resident::Resident(Census& census) : census_(census) {
  absl::MutexLock lock(&census_.mutex_);
  ++census_.running_;
  ++census_.arrivals_;
}

Census::Resident::~Resident() {
  absl::MutexLock lock(&census_.mutex_);
  --census_.running_;
}

Census::Moment Census::Now() const {
  absl::MutexLock lock(&mutex_);
  return {running_, arrivals_};
}

bool Census::AloneSince(const Moment& moment) const {
  absl::MutexLock lock(&mutex_);
  return moment.running == 1 && arrivals_ == moment.arrivals;
}

}  // namespace hearth::job
