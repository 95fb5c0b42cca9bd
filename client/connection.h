#ifndef HEARTH_CLIENT_CONNECTION_H_
#define HEARTH_CLIENT_CONNECTION_H_

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

/// Calls that survive a restart of the daemon or a broken network: ids of
/// repeated requests, the channel, statuses, pauses between attempts, notices
/// of silence, and watches that go on after a break. gRPC is included by the
/// .cc alone.

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace hearth::client {

/// A random UUID (RFC 4122, version 4) from the system's randomness.
std::string NewRequestId();

/// A channel to the daemon of `options`, encrypted if they have an authority,
/// but not over a Unix socket, which nobody else reads. It connects again
/// within a second, and gives up a connection on which the daemon is silent for
/// 8 s while a call is in progress.
std::shared_ptr<grpc::Channel> NewChannel(const ClientOptions& options);

/// Waits up to 0.2 s for a lost connection to come back; returns at once if it
/// is not lost. gRPC connects again only while somebody waits for it, and calls
/// over a lost connection do not wait.
void AwaitConnection(grpc::Channel& channel);

/// The status of a finished call with canonical code `code` and `message`.
/// `details` is a serialized google.rpc.Status, or empty. The violations of a
/// google.rpc.BadRequest in it follow the message, as in "invalid job:
/// train.data.epochs: must be at most 10000". Details that cannot be read are
/// left out.
absl::Status RpcStatus(int code, const std::string& message,
                       const std::string& details);

/// The status of a call over `channel` that finished with `status`. Where the
/// connection failed, IsUnreachable() holds and the message names `server`.
absl::Status CallStatus(const grpc::Status& status, grpc::Channel& channel,
                        const std::string& server);

/// How long the daemon was silent before a call that ended with `status`; zero
/// if silence did not end it.
absl::Duration SilenceBefore(const absl::Status& status);

/// Pauses between attempts: each twice as long as the last one, at most 20
/// times the first, in all at most `patience`. It adds its pauses up and needs
/// no clock. Single-owner.
class Backoff {
 public:
  Backoff(absl::Duration first, absl::Duration patience);

  /// After a success: the next pause is the first again.
  void Reset();

  /// Pauses. False, without a pause, when patience is at its end; false at once
  /// when `stop` is requested.
  bool Pause(const std::stop_token& stop);

 private:
  absl::Duration first_;
  absl::Duration patience_;
  absl::Duration next_;
  absl::Duration paused_;
};

/// Notices that the other side is silent for too long, and that it is heard
/// again. Thread-safe.
class SilenceWatch {
 public:
  /// Called once for each silence of `limit`, with its length, on a thread of
  /// this object; and with zero at its end, on the thread that calls Heard. Not
  /// called between Heard and Lost.
  using Notice = std::function<void(absl::Duration)>;

  /// Begins with the other side heard. Null `notice`: nothing is watched.
  SilenceWatch(absl::Duration limit, Notice notice,
               const Clock& clock = Clock::Real());
  ~SilenceWatch();
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  /// To be called when anything comes from the other side.
  void Heard() ABSL_LOCKS_EXCLUDED(mutex_);

  /// To be called when the other side stops answering, after a silence of
  /// `before`. No effect during a silence.
  void Lost(absl::Duration before) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration limit_;
  const Notice notice_;
  const Clock& clock_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  // Seconds on the steady clock; absent while the other side is heard.
  std::optional<double> silent_since_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
  bool exiting_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

/// Calls by which a job or a sweep is watched.
template <typename Event>
struct WatchCalls {
  using Sink = std::function<bool(const Event&)>;

  /// One stream of events from a sequence number on, until the sink returns
  /// false; returns the stream's status.
  std::function<absl::Status(uint64_t from_sequence, const Sink& sink)> stream;
  /// Whether the job or sweep has ended by now.
  std::function<absl::StatusOr<bool>()> has_ended;
  /// Whether an event is a change of state, and whether such an event is the
  /// end.
  std::function<bool(const Event&)> is_state;
  std::function<bool(const Event&)> is_end;
};

/// Whether a status tells that the other side went away. A killed daemon gives
/// UNAVAILABLE; a daemon that shuts down may give any of these codes.
inline bool IsBroken(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kCancelled ||
         status.code() == absl::StatusCode::kUnknown || IsUnreachable(status);
}

/// A watch that goes on after broken connections and restarts of the daemon.
///
///   1. Stream events from the next wanted number on. Hand each new event to
///      the sink; the wanted number is then the number after it.
///   2. The sink returns false: OK. A stop is requested: CANCELLED.
///   3. The stream ended well, and its last state was the end: OK.
///   4. The stream ended well without the end (the daemon stops, or the end
///      came before the first wanted number): OK if the job or sweep has ended,
///      else as after a break.
///   5. The stream broke: pause, unless patience is at its end, and start over.
///      Any event restores patience. Statuses that waiting does not change
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
