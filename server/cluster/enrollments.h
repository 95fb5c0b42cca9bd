#ifndef HEARTH_SERVER_CLUSTER_ENROLLMENTS_H_
#define HEARTH_SERVER_CLUSTER_ENROLLMENTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "hearth/v1/peers.pb.h"

namespace hearth::server {

/// What the members of a cluster have told: where each is reached, and how the
/// run ends (Peers.Enroll). Thread-safe.
class Enrollments {
 public:
  /// A member that has not called for so long is missing. Launchers call each
  /// second.
  static constexpr absl::Duration kSilence = absl::Seconds(10);

  /// `members`: all of the cluster, the first one first. `clock` outlives this.
  Enrollments(std::vector<std::string> members, const Clock& clock)
      : members_(std::move(members)), clock_(clock) {}

  /// A call of `member`. Errors as those of Peers.Enroll.
  absl::StatusOr<v1::Enrolled> Take(const std::string& member,
                                    const v1::EnrollRequest& request)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Where a member is reached, HOST:PORT; empty if it has not said so.
  std::string AddressOf(absl::string_view member) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::string instance;
    std::string address;
    double heard = 0;
    // Whether the member knows how the run has ended.
    bool is_told = false;
    // Processes that were this member before.
    std::set<std::string> former;
  };

  absl::Status Note(const std::string& member, const v1::EnrollRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::string> members_;
  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  // The first error, which is that of all calls from then on.
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::optional<int32_t> exit_code_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_ENROLLMENTS_H_
