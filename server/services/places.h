#ifndef HEARTH_SERVER_SERVICES_PLACES_H_
#define HEARTH_SERVER_SERVICES_PLACES_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace hearth::server {

/// Places of streams that hold files or memory: some in all, and some for each
/// caller, so that one leaves room for others. Thread-safe.
class Places {
 public:
  /// `what` names the streams in errors: "downloads and uploads".
  Places(std::string what, int most, int most_of_caller)
      : what_(std::move(what)), most_(most), most_of_caller_(most_of_caller) {}
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  /// One place; freed on destruction.
  class Place {
   public:
    Place(Places& places, std::string caller)
        : places_(places), caller_(std::move(caller)) {}
    ~Place() { places_.Leave(caller_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Places& places_;
    const std::string caller_;
  };

  /// Takes a place for `caller`. UNAVAILABLE if all places are taken,
  /// RESOURCE_EXHAUSTED if the caller has as many as one may have. The result
  /// must not outlive this.
  absl::StatusOr<std::unique_ptr<Place>> Enter(const std::string& caller)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Leave(const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string what_;
  const int most_;
  const int most_of_caller_;
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> of_callers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_PLACES_H_
