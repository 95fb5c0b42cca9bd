#ifndef HEARTH_CLIENT_CONNECTION_H_
#define HEARTH_CLIENT_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/hearth_client.h"
#include "engine/base/clock.h"

namespace hearth::client {

/// A random UUID (RFC 4122, version 4) from the system's randomness.
std::string NewRequestId();

/// The status of a finished call with canonical code `code` and `message`.
/// `details` is what came with it: a serialized google.rpc.Status, or empty.
/// Fields that a google.rpc.BadRequest in it finds fault with follow the
/// message, as in "invalid job: train.data.epochs: must be at most 10000".
/// Details that cannot be read are left out.
absl::Status RpcStatus(int code, const std::string& message,
                       const std::string& details);

/// Pauses between attempts, each twice as long as the one before up to 20
/// times the first, within a limit of patience. Counts what it pauses, so that
/// no clock is needed. Single-owner.
class Backoff {
 public:
  Backoff(absl::Duration first, absl::Duration patience);

  /// Something worked: the next pause is the first again.
  void Reset();

  /// Pauses. False without pausing once patience is at its end, and at once
  /// when `stop` is requested.
  bool Pause(const std::stop_token& stop);

 private:
  absl::Duration first_;
  absl::Duration patience_;
  absl::Duration next_;
  absl::Duration paused_;
};

/// Tells when the other side has not been heard for too long, and when it is
/// heard again. Thread-safe.
class SilenceWatch {
 public:
  /// Called with the length of the silence, once for each that lasts `limit`,
  /// on a thread of this object; with zero, on that of Heard, when it is over.
  /// Not called between Heard and Lost.
  using Notice = std::function<void(absl::Duration)>;

  /// The other side counts as heard. Without a `notice` nothing is watched.
  SilenceWatch(absl::Duration limit, Notice notice,
               const Clock& clock = Clock::Real());
  ~SilenceWatch();
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  /// Something has come from the other side.
  void Heard() ABSL_LOCKS_EXCLUDED(mutex_);

  /// From now on nothing comes; it has been silent for `before` already.
  /// Nothing happens if that is known.
  void Lost(absl::Duration before) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration limit_;
  const Notice notice_;
  const Clock& clock_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  // On the steady clock; absent while the other side is heard.
  std::optional<double> silent_since_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
  bool exiting_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

/// A channel to the daemon that `options` name, encrypted if they name an
/// authority (never over a Unix socket, which nobody else reads); made for a
/// daemon that restarts: it tries again within a second, and gives up a
/// connection on which the daemon stays silent while a call is in progress.
std::shared_ptr<grpc::Channel> NewChannel(const ClientOptions& options);

/// Waits a moment, 0.2 s at most, for a lost connection to be there again; at
/// once if it is not lost. gRPC goes on connecting only while somebody waits in
/// it, and calls over a lost connection do not wait.
void AwaitConnection(grpc::Channel& channel);

/// The status of a call over `channel` that finished with `status`; where the
/// connection is at fault rather than the daemon's answer, IsUnreachable()
/// holds and the message names `server`.
absl::Status CallStatus(const grpc::Status& status, grpc::Channel& channel,
                        const std::string& server);

/// How long the daemon was silent before a call ended with `status`; zero if
/// it ended otherwise.
absl::Duration SilenceBefore(const absl::Status& status);

/// How what is watched, a job or a sweep, is reached.
template <typename Event>
struct WatchCalls {
  using Sink = std::function<bool(const Event&)>;

  /// One stream of events from a sequence number on; any status of the stream
  /// is returned. The sink returns false when it has had enough.
  std::function<absl::Status(uint64_t from_sequence, const Sink& sink)> stream;
  /// Whether it has ended by now.
  std::function<absl::StatusOr<bool>()> has_ended;
  /// Whether an event is a change of state: then, whether it is the end.
  std::function<bool(const Event&)> is_state;
  std::function<bool(const Event&)> is_end;
};

/// Whether the other side went away, by the codes that gRPC reports then. A
/// daemon that is killed gives UNAVAILABLE; one that shuts down may give any of
/// them.
inline bool IsBroken(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kCancelled ||
         status.code() == absl::StatusCode::kUnknown || IsUnreachable(status);
}

/// A watch through broken connections and restarts of the daemon.
///
///   1. Stream events from the next number wanted; hand on each event not seen
///      before, and want the one after it next.
///   2. The sink has had enough: done. Stopped: CANCELLED.
///   3. The stream ended well and the end was among its events: done.
///   4. The stream ended well without it (the daemon was stopping, or the end
///      came before the first number wanted): done if it has ended, else go on
///      as after a break.
///   5. The stream broke: pause, unless patience is at its end, and start over.
///      Any event restores patience. Answers that will not change by waiting
///      (NOT_FOUND, say) end the watch.
template <typename Event>
class EventWatch {
 public:
  EventWatch(const WatchCalls<Event>& calls, uint64_t from_sequence,
             const typename WatchCalls<Event>::Sink& sink, std::stop_token stop,
             Backoff backoff)
      : calls_(calls),
        sink_(sink),
        stop_(std::move(stop)),
        backoff_(backoff),
        next_(std::max<uint64_t>(from_sequence, 1)) {}

  absl::Status Run() {
    while (true) {
      absl::Status status = calls_.stream(
          next_, [this](const Event& event) { return Take(event); });
      if (enough_) return absl::OkStatus();
      if (stop_.stop_requested()) return Stopped();
      if (status.ok() && ended_) return absl::OkStatus();
      if (status.ok()) {
        const absl::StatusOr<bool> has_ended = calls_.has_ended();
        if (has_ended.ok() && *has_ended) return absl::OkStatus();
        status = has_ended.ok()
                     ? absl::UnavailableError("the watch ended early")
                     : has_ended.status();
      }
      if (!IsBroken(status)) return status;
      if (!backoff_.Pause(stop_)) {
        return stop_.stop_requested() ? Stopped() : status;
      }
    }
  }

 private:
  static absl::Status Stopped() {
    return absl::CancelledError("the watch was stopped");
  }

  bool Take(const Event& event) {
    if (event.sequence() < next_) return true;  // Seen before the break.
    next_ = event.sequence() + 1;
    backoff_.Reset();
    if (calls_.is_state(event)) ended_ = calls_.is_end(event);
    enough_ = !sink_(event);
    return !enough_;
  }

  const WatchCalls<Event>& calls_;
  const typename WatchCalls<Event>::Sink& sink_;
  const std::stop_token stop_;
  Backoff backoff_;
  uint64_t next_;
  bool ended_ = false;
  bool enough_ = false;
};

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_CONNECTION_H_
