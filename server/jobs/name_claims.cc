#include "server/jobs/name_claims.h"

#include "absl/strings/str_cat.h"

namespace hearth::server {

absl::StatusOr<NameClaims::Claim> NameClaims::Share(const std::string& name,
                                                    absl::string_view purpose) {
  absl::MutexLock lock(&mutex_);
  Holders& holders = holders_[name];
  if (holders.alone) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " ", holders.purpose));
  }
  ++holders.count;
  holders.purpose = std::string(purpose);
  return Claim(this, name);
}

absl::StatusOr<NameClaims::Claim> NameClaims::Take(const std::string& name,
                                                   absl::string_view purpose) {
  absl::MutexLock lock(&mutex_);
  Holders& holders = holders_[name];
  if (holders.count > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " ", holders.purpose));
  }
  holders = {.count = 1, .alone = true, .purpose = std::string(purpose)};
  return Claim(this, name);
}

NameClaims::Claim NameClaims::Await(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  while (holders_.contains(name)) released_.Wait(&mutex_);
  holders_[name] = {.count = 1, .alone = true, .purpose = "is awaited"};
  return Claim(this, name);
}

void NameClaims::Release(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto found = holders_.find(name);
  if (--found->second.count > 0) return;
  holders_.erase(found);
  released_.SignalAll();
}

}  // namespace hearth::server
