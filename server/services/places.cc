#include "server/services/places.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hearth::server {

absl::StatusOr<std::unique_ptr<Places::Place>> Places::Enter(
    const std::string& caller) {
  {
    absl::MutexLock lock(&mutex_);
    if (count_ >= most_) {
      return absl::UnavailableError(
          absl::StrCat(most_, " ", what_, " are under way; try again later"));
    }
    const auto found = of_callers_.find(caller);
    if (found != of_callers_.end() && found->second >= most_of_caller_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(most_of_caller_, " ", what_, " of ",
                       caller.empty() ? "nobody" : caller,
                       " are under way; let one of them end first"));
    }
    ++count_;
    ++of_callers_[caller];
  }
  return std::make_unique<Place>(*this, caller);
}

void Places::Leave(const std::string& caller) {
  absl::MutexLock lock(&mutex_);
  --count_;
  const auto found = of_callers_.find(caller);
  if (--found->second == 0) of_callers_.erase(found);
}

}  // namespace hearth::server
