#ifndef HEARTH_CLIENT_LAUNCHER_ENROLLMENT_H_
#define HEARTH_CLIENT_LAUNCHER_ENROLLMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "hearth/v1/peers.pb.h"

namespace hearth::launcher {

/// A process of a run, as the daemon of rank 0 knows it: calls that daemon each
/// second until the run is over. Thread-safe.
class Enrollment {
 public:
  /// Peers.Enroll at rank 0's daemon, with a certificate of the own rank.
  using Call =
      std::function<absl::StatusOr<v1::Enrolled>(const v1::EnrollRequest&)>;

  struct Times {
    absl::Duration call = absl::Seconds(1);
    /// Time that other processes have to come, and rank 0 may stay away.
    absl::Duration patience = absl::Minutes(5);
    /// Time that others have to hear how the run has ended.
    absl::Duration farewell = absl::Seconds(10);
  };

  /// `size`: processes of the run.
  Enrollment(Call call, uint32_t size, Times times);
  ~Enrollment();
  Enrollment(const Enrollment&) = delete;
  Enrollment& operator=(const Enrollment&) = delete;

  /// Tells that the own daemon is ready, with its dataset, and reached at
  /// `address` (HOST:PORT).
  void SetReady(const std::string& address) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until all processes are ready, however long that takes while all are
  /// there. CANCELLED after a stop; else as failure().
  absl::Status AwaitAll(std::stop_token stop) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits until rank 0 has ended, and returns its exit code. Errors as
  /// AwaitAll's.
  absl::StatusOr<int> AwaitEnd(std::stop_token stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Tells the exit code of this process, of rank 0 to all others, and waits
  /// until they know it, or Times::farewell is over.
  void End(int exit_code) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Requested when the run cannot go on: see failure().
  std::stop_token failed() const { return failed_.get_token(); }

  /// Why the run cannot go on: the error of rank 0's daemon; DEADLINE_EXCEEDED
  /// if it, or ranks that are named, have stayed away for Times::patience. OK
  /// while it can.
  absl::Status failure() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Work(const std::stop_token& stop) ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes what a call has returned.
  void Take(const absl::StatusOr<v1::Enrolled>& answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until an answer meets a condition.
  absl::Status Await(const std::stop_token& stop,
                     bool (*condition)(const v1::Enrolled& answer))
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Call call_;
  const Times times_;
  std::stop_source failed_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  v1::EnrollRequest request_ ABSL_GUARDED_BY(mutex_);
  // The newest answer.
  std::optional<v1::Enrolled> last_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // When all processes were last known to be there, in seconds on the steady
  // clock.
  double complete_ ABSL_GUARDED_BY(mutex_);
  // Whether the request has changed since the last call began.
  bool has_changed_ ABSL_GUARDED_BY(mutex_) = true;
  std::jthread thread_;
};

}  // namespace hearth::launcher

#endif  // HEARTH_CLIENT_LAUNCHER_ENROLLMENT_H_
