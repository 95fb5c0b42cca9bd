#include "server/services/transfers.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hearth::server {

Transfers::~Transfers() {
  {
    absl::MutexLock lock(&mutex_);
    exiting_ = true;
    slow_.Signal();
  }
  slow_thread_.join();
}

double Transfers::BePatientWith(const Watcher& transfer) {
  const double until =
      Clock::Real().SteadySeconds() + absl::ToDoubleSeconds(patience_);
  hub_.WakeAt(&transfer, until);
  return until;
}

void Transfers::DoSlowly(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  slow_work_.push_back(std::move(work));
  slow_.Signal();
}

void Transfers::RunSlowly() {
  while (const std::function<void()> work = NextSlowWork()) work();
}

std::function<void()> Transfers::NextSlowWork() {
  absl::MutexLock lock(&mutex_);
  while (!exiting_ && slow_work_.empty()) slow_.Wait(&mutex_);
  if (exiting_) return nullptr;
  std::function<void()> work = std::move(slow_work_.front());
  slow_work_.pop_front();
  return work;
}

absl::StatusOr<std::unique_ptr<Transfers::Place>> Transfers::Enter(
    const std::string& caller) {
  {
    absl::MutexLock lock(&mutex_);
    if (count_ >= kMost) {
      return absl::UnavailableError(absl::StrCat(
          kMost, " downloads and uploads are under way; try again later"));
    }
    const auto found = of_callers_.find(caller);
    if (found != of_callers_.end() && found->second >= kMostOfCaller) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kMostOfCaller, " downloads and uploads of ",
                       caller.empty() ? "nobody" : caller,
                       " are under way; let one of them end first"));
    }
    ++count_;
    ++of_callers_[caller];
  }
  return std::make_unique<Place>(*this, caller);
}

void Transfers::Leave(const std::string& caller) {
  absl::MutexLock lock(&mutex_);
  --count_;
  const auto found = of_callers_.find(caller);
  if (--found->second == 0) of_callers_.erase(found);
}

}  // namespace hearth::server
