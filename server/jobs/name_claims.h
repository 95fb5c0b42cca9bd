#ifndef HEARTH_SERVER_JOBS_NAME_CLAIMS_H_
#define HEARTH_SERVER_JOBS_NAME_CLAIMS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace hearth::server {

/// Names that calls in progress rely on, so that a call can look at files and
/// remove them without a lock, and no other call takes away what it has just
/// seen. Thread-safe.
class NameClaims {
 public:
  /// A claim on names, given back when destroyed. Move-only. The claims must
  /// outlive it.
  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept { *this = std::move(other); }
    Claim& operator=(Claim&& other) noexcept {
      std::swap(claims_, other.claims_);
      std::swap(names_, other.names_);
      return *this;
    }
    ~Claim() {
      for (const std::string& name : names_) claims_->Release(name);
    }

    /// Takes over what the other one claims. REQUIRES: of the same claims.
    void Add(Claim other) {
      claims_ = other.claims_;
      names_.insert(names_.end(), other.names_.begin(), other.names_.end());
      other.names_.clear();
    }

   private:
    friend class NameClaims;
    Claim(NameClaims* claims, std::string name)
        : claims_(claims), names_({std::move(name)}) {}

    NameClaims* claims_ = nullptr;
    std::vector<std::string> names_;
  };

  /// Claims `name` ("dataset \"cora\"") together with others. `purpose`
  /// ("is used by ...") is told to those that are refused meanwhile.
  /// FAILED_PRECONDITION while somebody has it alone.
  absl::StatusOr<Claim> Share(const std::string& name,
                              absl::string_view purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Claims `name` alone. FAILED_PRECONDITION while anybody has it.
  absl::StatusOr<Claim> Take(const std::string& name, absl::string_view purpose)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until nobody has `name`, and claims it alone.
  Claim Await(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Holders {
    int count = 0;
    bool alone = false;
    std::string purpose;
  };

  void Release(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar released_;
  std::map<std::string, Holders> holders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_NAME_CLAIMS_H_
