#ifndef HEARTH_SERVER_SERVICES_TRANSFERS_H_
#define HEARTH_SERVER_SERVICES_TRANSFERS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/jobs/event_hub.h"

namespace hearth::server {

/// Downloads and uploads: the thread that reads and writes for all of them, and
/// how many there may be, since each holds a file, or two, and a piece of it.
/// Thread-safe.
class Transfers {
 public:
  /// At most so many are under way at a time, in all and of one caller.
  static constexpr int kMost = 128;
  static constexpr int kMostOfCaller = 16;

  Transfers() = default;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// The place of one transfer, until it goes; of these Transfers.
  class Place {
   public:
    Place(Transfers& transfers, std::string caller)
        : transfers_(transfers), caller_(std::move(caller)) {}
    ~Place() { transfers_.Leave(caller_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    Transfers& transfers_;
    const std::string caller_;
  };

  /// Counts a transfer of `caller`. UNAVAILABLE if there are as many as may be,
  /// RESOURCE_EXHAUSTED if the caller has.
  absl::StatusOr<std::unique_ptr<Place>> Enter(const std::string& caller)
      ABSL_LOCKS_EXCLUDED(mutex_);

  EventHub& hub() { return hub_; }

 private:
  void Leave(const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> of_callers_ ABSL_GUARDED_BY(mutex_);
  // Goes first: its streams hold places.
  EventHub hub_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_TRANSFERS_H_
